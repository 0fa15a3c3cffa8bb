"""The arrival cut: which observations of which host the gateway judged, and at which times.

An observation that was lost on its way, or came after its second was judged, is in the store of its
agent but not in the live verdict. The gateway stores where the judged ones begin and end, so that a
replay of the agents' stores can leave out the others and correct clocks as the gateway did.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pipeline.frame import Device
from pipeline.observation import Event, Observation

# Host and source of what a gateway stores: its findings and incidents, and these events.
GATEWAY = "gateway"
BEGIN, END = "arrivals_begin", "arrivals_end"
# Events by which a gateway judges otherwise from then on.
LEARNT = frozenset({"calibration_changed"})


@dataclass(frozen=True, slots=True)
class Arrived:
    """Observations ``first`` to ``last`` (None: no end is known) of one boot of a host, judged at
    their unix times plus ``offset_ns``; all of them at ``at_ns`` where that is not 0.
    """

    boot_id: str
    first: int
    last: int | None = None
    offset_ns: int = 0
    at_ns: int = 0

    def holds(self, seq: int) -> bool:
        """Whether an observation of this boot is one of them."""
        return self.first <= seq and (self.last is None or seq <= self.last)

    def time_ns(self, observation: Observation) -> int:
        """The unix time at which the gateway judged one of them."""
        return self.at_ns or observation.time_ns + self.offset_ns

    def begin(self, host: str, time_ns: int) -> Event:
        """As an event at that time."""
        facts: dict[str, str | int] = {"boot_id": self.boot_id, "observation": self.first}
        if self.offset_ns:
            facts["offset_ns"] = self.offset_ns
        if self.at_ns:
            facts["at_ns"] = self.at_ns
        return Event(time_ns, 0, Device(host, "node", host), BEGIN, facts)

    def end(self, host: str, time_ns: int) -> Event:
        """As an event at that time. ValueError where no end is known."""
        if self.last is None:
            raise ValueError("no end is known")
        facts: dict[str, str | int] = {"boot_id": self.boot_id, "observation": self.last}
        return Event(time_ns, 0, Device(host, "node", host), END, facts)


class ArrivalCut:
    """The cut that a gateway stored. Events of other kinds are passed over.

    A gateway that was started again may judge seconds again: what it stored last counts.

    >>> cut = ArrivalCut([Arrived("b", 5, offset_ns=7).begin("n1", 0)])
    >>> cut.time_ns(Observation("nvml", "n1", "b", 6, 1000, 0, 0))
    1007
    >>> cut.time_ns(Observation("nvml", "n1", "b", 4, 1000, 0, 0)) is None
    True
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._of: dict[tuple[str, str], list[Arrived]] = {}
        self._learnt: deque[Event] = deque()
        for event in events:
            self.add(event)

    @property
    def hosts(self) -> frozenset[str]:
        """Hosts of which anything was judged."""
        return frozenset(host for host, _ in self._of)

    def add(self, event: Event) -> None:
        """The next event, in the gateway's order."""
        if event.kind in LEARNT:
            self._learnt.append(event)
        if event.kind not in (BEGIN, END):
            return
        facts = event.attributes
        boot_id, seq = str(facts["boot_id"]), int(facts["observation"])
        known = self._of.setdefault((event.device.host, boot_id), [])
        if event.kind == END:
            while known and known[-1].first > seq:  # repeated, and nothing came since
                known.pop()
            if known and known[-1].holds(seq):
                known[-1] = replace(known[-1], last=seq)
            return
        while known and known[-1].first >= seq:
            known.pop()
        if known and known[-1].holds(seq):
            known[-1] = replace(known[-1], last=seq - 1)
        offset_ns, at_ns = (int(facts.get(name, 0)) for name in ("offset_ns", "at_ns"))
        known.append(Arrived(boot_id, seq, None, offset_ns, at_ns))

    def learnt(self, end_ns: int) -> tuple[Event, ...]:
        """Events before a time by which the gateway judged from then on, each once."""
        found = []
        while self._learnt and self._learnt[0].time_ns < end_ns:
            found.append(self._learnt.popleft())
        return tuple(found)

    def arrived(self, observation: Observation) -> Arrived | None:
        """The observations of which it is one; None where the gateway did not judge it."""
        known = self._of.get((observation.host, observation.boot_id), [])
        place = bisect_right(known, observation.seq, key=lambda each: each.first)
        if not place or not known[place - 1].holds(observation.seq):
            return None
        return known[place - 1]

    def time_ns(self, observation: Observation) -> int | None:
        """The unix time at which the gateway judged it; None where it did not."""
        arrived = self.arrived(observation)
        return arrived.time_ns(observation) if arrived else None
