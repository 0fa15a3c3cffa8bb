"""A round: observations of many nodes, at most one of each, whose frames are joined already.

What a store gives where nodes are judged together (pipeline/store/decode/rounds.py): a node's own
observation is cut out of it only where it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, overload

from pipeline.finding import Finding
from pipeline.frame import Device, Frame, Schema
from pipeline.observation import Event, Observation, Outcome, Unread

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Longs = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class JoinedRows:
    """A frame of each node, one after the other. ``parts`` are the devices of each node;
    ``time_ns`` and ``mono_ns`` (node,) when each was read; the other arrays as a frame's.
    """

    schema: Schema
    parts: tuple[tuple[Device, ...], ...]
    time_ns: Longs
    mono_ns: Longs
    gauges: NDArray[np.float64]
    counters: NDArray[np.uint64]
    observed: NDArray[np.bool_]
    sampled_ns: Longs

    @cached_property
    def _begins(self) -> list[int]:
        return list(accumulate(map(len, self.parts), initial=0))

    def of(self, place: int) -> Frame:
        """The frame of a node; its arrays are its own."""
        rows = slice(self._begins[place], self._begins[place + 1])
        return Frame(
            self.schema,
            int(self.time_ns[place]),
            int(self.mono_ns[place]),
            self.parts[place],
            self.gauges[:, rows].copy(),
            self.counters[:, rows].copy(),
            self.observed[:, rows].copy(),
            self.sampled_ns[rows].copy(),
        )


@dataclass(frozen=True, eq=False)
class Round(Sequence[Observation]):
    """Observations of one ``source`` that have frames of the same kinds, (node,) each.

    ``outcomes`` and ``errors`` are of each node; ``events``, ``unread`` and ``then`` (what was
    found when it was live) of those that have any, by place.
    """

    source: str
    names: tuple[str, ...]
    boots: tuple[str, ...]
    seq: Longs
    time_ns: Longs
    mono_ns: Longs
    duration_ns: Longs
    outcomes: Sequence[Outcome]
    errors: Sequence[str]
    frames: tuple[JoinedRows, ...]
    events: Mapping[int, tuple[Event, ...]] = field(default_factory=dict)
    unread: Mapping[int, tuple[Unread, ...]] = field(default_factory=dict)
    then: Mapping[int, tuple[Finding, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, place: int) -> Observation: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Observation]: ...

    def __getitem__(self, place: int | slice) -> Observation | Sequence[Observation]:
        if isinstance(place, slice):
            return [self[number] for number in range(*place.indices(len(self)))]
        place = range(len(self))[place]
        return Observation(
            self.source,
            self.names[place],
            self.boots[place],
            int(self.seq[place]),
            int(self.time_ns[place]),
            int(self.mono_ns[place]),
            int(self.duration_ns[place]),
            frames=tuple(frame.of(place) for frame in self.frames),
            events=self.events.get(place, ()),
            unread=self.unread.get(place, ()),
            outcome=self.outcomes[place],
            error=self.errors[place],
        )

    def devices(self, place: int, number: int) -> tuple[Device, ...]:
        """The devices of a node in one of the frames."""
        return self.frames[number].parts[place]
