"""Event, Reading and Observation: what one read of one source gave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from pipeline.frame import Device, Frame, whole_microseconds
from pipeline.node_times import NodeTimes

Value = str | int | float | bool
Outcome = Literal["ok", "failed", "overdue"]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened: an XID line, a link going down, a job starting.

    ``time_ns`` is when it happened (unix, floored to whole microseconds), ``mono_ns`` the same on
    the monotonic clock where known, else 0. ``kind`` and the names of ``attributes`` stand in the
    catalogue (pipeline/catalog/events.py).
    """

    time_ns: int
    mono_ns: int
    device: Device
    kind: str
    attributes: Mapping[str, Value] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        if not isinstance(self.attributes, MappingProxyType):
            object.__setattr__(self, "attributes", MappingProxyType(dict(self.attributes)))
        object.__setattr__(self, "time_ns", whole_microseconds(self.time_ns))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Event, (self.time_ns, self.mono_ns, self.device, self.kind, dict(self.attributes)))


@dataclass(frozen=True, slots=True)
class Unread:
    """What could not be read and why.

    ``device`` and ``field`` are empty where the whole source or device is meant.
    """

    reason: str
    device: str = ""
    field: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a source returns: partial success is a value.

    A source that can give nothing at all raises instead.
    """

    frames: tuple[Frame, ...] = ()
    events: tuple[Event, ...] = ()
    unread: tuple[Unread, ...] = ()


@dataclass(frozen=True, slots=True)
class Observation:
    """One read of one source as the engine saw it: everything a detector may depend on is in here.

    ``seq`` counts the observations of one agent's life over all sources: their total order.
    ``time_ns`` and ``mono_ns`` are the start of the read (unix time in whole microseconds),
    ``duration_ns`` how long it took. ``error`` says why a read with another outcome than ok gave
    nothing. ``nodes``: the times of each node in an observation that several are joined in
    (pipeline/joined.py); ``host`` and ``boot_id`` are then empty.
    """

    source: str
    host: str
    boot_id: str
    seq: int
    time_ns: int
    mono_ns: int
    duration_ns: int
    frames: tuple[Frame, ...] = ()
    events: tuple[Event, ...] = ()
    unread: tuple[Unread, ...] = ()
    outcome: Outcome = "ok"
    error: str = ""
    nodes: NodeTimes | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "time_ns", whole_microseconds(self.time_ns))

    def corrected(self, offset_ns: int) -> Observation:
        """With unix times moved by so much; the monotonic clock stays."""
        return replace(
            self,
            time_ns=self.time_ns + offset_ns,
            frames=tuple(replace(each, time_ns=each.time_ns + offset_ns) for each in self.frames),
            events=tuple(replace(each, time_ns=each.time_ns + offset_ns) for each in self.events),
        )
