"""Writes the arrival cut (pipeline/arrival_cut.py) while observations are taken or lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any

from pipeline.arrival import Arrival
from pipeline.arrival_cut import Arrived
from pipeline.clock import SECOND_NS
from pipeline.frame import Device
from pipeline.observation import Event, Observation
from pipeline.plain import plain_event

# Who replays a part of a day finds the state of each host at most so long before it.
REPEAT_S = 600


@dataclass(slots=True)
class _Open:
    """What arrives from a host now; ``last`` and ``time_ns`` of its last observation."""

    arrived: Arrived
    last: int
    time_ns: int

    def goes_on(self, boot_id: str, offset_ns: int, at_ns: int) -> bool:
        """Whether an observation of these is one more of the run."""
        its = self.arrived
        return its.boot_id == boot_id and its.offset_ns == offset_ns and its.at_ns == at_ns


class Cut:
    """Knows of each host which run of observations goes on."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._events: list[Event] = []
        self._repeated_s = 0

    def taken(
        self, observation: Observation | Arrival, time_ns: int, offset_ns: int, *, gap: bool
    ) -> None:
        """It will be judged at this time. ``gap``: others before it never came."""
        at_ns = 0 if time_ns == observation.time_ns + offset_ns else time_ns
        known = self._open.get(observation.host)
        if known is not None and not gap and known.goes_on(observation.boot_id, offset_ns, at_ns):
            known.last, known.time_ns = observation.seq, time_ns
            return
        arrived = Arrived(observation.boot_id, observation.seq, offset_ns=offset_ns, at_ns=at_ns)
        self.lost(observation.host)
        self._open[observation.host] = _Open(arrived, observation.seq, time_ns)
        self._events.append(arrived.begin(observation.host, time_ns))

    def lost(self, host: str) -> None:
        """What comes next from a host is not judged, until more is taken."""
        known = self._open.pop(host, None)
        if known is not None:
            ended = replace(known.arrived, last=known.last)
            self._events.append(ended.end(host, known.time_ns))

    def plain(self) -> dict[str, Any]:
        """Everything, as plain values."""
        runs = [
            [host, known.last, known.time_ns, *astuple(known.arrived)]
            for host, known in self._open.items()
        ]
        events = [plain_event(event) for event in self._events]
        return {"runs": runs, "events": events, "repeated": self._repeated_s}

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Cut:
        """What ``plain`` gave. KeyError, TypeError or ValueError where it is something else."""
        cut = cls()
        for host, last, time_ns, *arrived in values["runs"]:
            cut._open[host] = _Open(Arrived(*arrived), last, time_ns)
        for at_ns, mono_ns, device, kind, attributes in values["events"]:
            cut._events.append(Event(at_ns, mono_ns, Device(*device), kind, attributes))
        cut._repeated_s = int(values["repeated"])
        return cut

    def events(self, second: int) -> tuple[Event, ...]:
        """Those since the last call, and all that is open now and then."""
        events, self._events = self._events, []
        if second // REPEAT_S != self._repeated_s:
            self._repeated_s = second // REPEAT_S
            for host, known in self._open.items():
                again = replace(known.arrived, first=known.last + 1)
                events.append(again.begin(host, second * SECOND_NS))
        return tuple(events)
