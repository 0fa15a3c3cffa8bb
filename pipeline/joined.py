"""Observations of many nodes in one pass: their frames joined, each row with its node's own times.

Nothing here compares nodes. Nodes that are joined need not have been read at the same time: each
keeps its own clocks, boot and gaps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from pipeline.frame import Device, Frame
from pipeline.node_times import NodeTimes
from pipeline.observation import Observation

MAX_PLANS = 8  # joins of the same devices that are kept: one per source and set of nodes

Shape = tuple[str, tuple[tuple[str, bool], ...]]


def shape_of(observation: Observation) -> Shape:
    """What observations must have in common to be joined: source, and frames by kind, in order,
    with whether they have any device.
    """
    return observation.source, tuple((f.kind, bool(f.devices)) for f in observation.frames)


def rounds(nodes: Iterable[Iterable[Observation]]) -> Iterator[list[Observation]]:
    """Observations of nodes, each node's in its order, by as many at once as can be joined.

    Nodes get as far ahead of each other as joins well: those with events alone go first, so that
    the others meet at the same source.
    """
    ahead = {number: iter(node) for number, node in enumerate(nodes)}
    heads: dict[int, tuple[Observation, Shape]] = {}
    while True:
        for number in [number for number in ahead if number not in heads]:
            head = next(ahead[number], None)
            if head is None:
                del ahead[number]
            else:
                heads[number] = head, shape_of(head)
        if not heads:
            return
        counts = Counter(shape for _, shape in heads.values())
        chosen = max(counts, key=lambda shape: (not shape[1], counts[shape]))
        meets = sorted(number for number, (_, shape) in heads.items() if shape == chosen)
        yield [heads.pop(number)[0] for number in meets]


@dataclass(frozen=True, slots=True)
class _Plan:
    """Devices of several frames one after the other, and the node of each."""

    parts: tuple[tuple[Device, ...], ...]
    devices: tuple[Device, ...]
    node_of: NDArray[np.intp]


class Joiner:
    """Joins observations of one shape.

    The tuple of devices stays the same object while those of the nodes do, as detectors compare
    identity.
    """

    def __init__(self) -> None:
        self._plans: dict[tuple[object, ...], _Plan] = {}

    def join(self, observations: Sequence[Observation]) -> Observation:
        """One observation of all; ``nodes`` has the times of each.

        ValueError where they have not one shape, or a node is there twice.
        """
        first = observations[0]
        if any(shape_of(one) != shape_of(first) for one in observations):
            raise ValueError("observations of several shapes cannot be joined")
        names = tuple(one.host for one in observations)
        if len(set(names)) != len(names):
            raise ValueError("a node is there twice: its observations come one after the other")
        boots = tuple(one.boot_id for one in observations)
        frames = tuple(
            self._frame(names, boots, [one.frames[n] for one in observations])
            for n in range(len(first.frames))
        )
        return replace(
            first,
            host="",
            boot_id="",
            frames=frames,
            events=tuple(chain.from_iterable(one.events for one in observations)),
            unread=tuple(chain.from_iterable(one.unread for one in observations)),
            nodes=NodeTimes.of(
                names,
                [(one.time_ns, one.mono_ns) for one in observations],
                boots,
                np.repeat(np.arange(len(names)), [len(one.events) for one in observations]),
            ),
        )

    def _frame(
        self, names: tuple[str, ...], boots: tuple[str, ...], frames: Sequence[Frame]
    ) -> Frame:
        plan = self._plan(frames)
        first = frames[0]
        times = NodeTimes.of(names, [(f.time_ns, f.mono_ns) for f in frames], boots, plan.node_of)
        return Frame(
            first.schema,
            first.time_ns,
            first.mono_ns,
            plan.devices,
            np.concatenate([f.gauges for f in frames], axis=1),
            np.concatenate([f.counters for f in frames], axis=1),
            np.concatenate([f.observed for f in frames], axis=1),
            np.concatenate([f.sampled_ns for f in frames]),
            nodes=times,
        )

    def _plan(self, frames: Sequence[Frame]) -> _Plan:
        parts = tuple(frame.devices for frame in frames)
        key = (frames[0].kind, *map(id, parts))
        known = self._plans.get(key)
        if known is None:
            counts = [len(part) for part in parts]
            node_of = np.repeat(np.arange(len(parts)), counts).astype(np.intp)
            # It keeps the tuples, so that an id stays theirs.
            known = self._plans[key] = _Plan(parts, tuple(chain.from_iterable(parts)), node_of)
            if len(self._plans) > MAX_PLANS:
                del self._plans[next(iter(self._plans))]
        return known
