"""What arrives from hosts, in order and once: a pure account of each host's batches.

A host's agent numbers its batches per start (pipeline/bus/batch.py). The broker keeps the order of
one sender, so what is out of order is a second sender under the same name, or a replay.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from pipeline.arrival import Arrival
from pipeline.bus.batch import Batch, Received
from pipeline.clock import SECOND_NS
from pipeline.finding import Incident
from pipeline.observation import Observation
from pipeline.plain import incident_from, plain

# A host's clock is taken as right within this: batches wait that long at most, and a clock that NTP
# disciplines is within milliseconds.
RIGHT_NS = 2 * SECOND_NS
AHEAD_NS = SECOND_NS // 2  # it cannot be ahead of what arrives: so much is the broker's clock
OFFSET_WINDOW_NS = 60 * SECOND_NS
# An agent that was restarted never returns to a start of before: so many returns are agents that
# send in turn.
TURNS = 3
TURNS_WITHIN_NS = 600 * SECOND_NS
STARTS = 128  # that are known of a host: so many agents of one name are noticed
# The correction stays while the measured one is so close: its noise is that of the network.
STEADY_NS = SECOND_NS // 4
# Between a host's unix time and its monotonic clock: a change of so much is a clock that was set,
# or a machine that slept. A clock that is slewed takes both along.
SET_NS = SECOND_NS


@dataclass(slots=True)
class Host:
    """What is known of one host. Times are the gateway's unix time in ns unless they are said to
    be the host's.
    """

    name: str
    start: str = ""
    number: int = -1  # of the last batch of this start; -1 where it is not known
    seq: int = -1  # of the last observation
    gap: bool = True  # whether observations are missing before the newest batch
    arrived_ns: int = 0
    through_ns: int = 0  # host's time, corrected: nothing older will come
    missed: int = 0  # batches that never came
    repeated: int = 0  # batches that came again
    open: tuple[Incident, ...] = ()
    offset_ns: int = 0  # to add to the host's times; 0 while its clock is right
    _differences: deque[tuple[int, int]] = field(default_factory=deque)
    _starts: deque[str] = field(default_factory=lambda: deque(maxlen=STARTS))
    _returns: deque[int] = field(default_factory=lambda: deque(maxlen=TURNS))
    _booted_ns: int = 0  # the host's unix time when its monotonic clock was 0

    def plain(self) -> dict[str, Any]:
        """Everything, as plain values."""
        more = {
            "open": [plain(incident) for incident in self.open],
            "_differences": [*self._differences],
            "_starts": [*self._starts],
            "_returns": [*self._returns],
            "_booted_ns": self._booted_ns,
        }
        return {each.name: getattr(self, each.name) for each in fields(self)} | more

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Host:
        """What ``plain`` gave. KeyError, TypeError or ValueError where it is something else."""
        host = cls(**{name: values[name] for name in PLAIN})
        host.open = tuple(incident_from(incident) for incident in values["open"])
        host._differences.extend((int(at), int(by)) for at, by in values["_differences"])
        host._starts.extend(values["_starts"])
        host._returns.extend(values.get("_returns", ()))  # older snapshots have neither
        host._booted_ns = int(values.get("_booted_ns", 0))
        return host

    @property
    def doubled(self) -> bool:
        """Whether several agents send under this name."""
        turns = self._returns
        return len(turns) == TURNS and turns[0] >= self.arrived_ns - TURNS_WITHIN_NS

    def take(self, batch: Batch | Received, arrived_ns: int) -> Sequence[Observation | Arrival]:
        """Observations of a batch that are new, in order."""
        if batch.start == self.start and batch.number <= self.number:
            self.repeated += 1
            return ()
        arrivals = batch.arrivals
        self.gap = batch.start != self.start or batch.previous > self.seq
        if batch.start != self.start:
            if batch.start in self._starts:
                self._returns.append(arrived_ns)
            self._starts.append(batch.start)
            self.start, self.seq = batch.start, -1
        elif 0 <= self.number < batch.number - 1:
            self.missed += batch.number - self.number - 1
        self.number, self.arrived_ns, self.open = batch.number, arrived_ns, batch.open
        if arrivals and self._was_set(arrivals[-1]):
            self._differences.clear()
        self._measure(batch.sent_ns, arrived_ns)
        self.through_ns = batch.sent_ns + self.offset_ns
        found = [one for one in arrivals if one.seq > self.seq]
        if found:
            self.seq = found[-1].seq
        return found

    def _was_set(self, read: Observation | Arrival) -> bool:
        """Whether the host's clock was set since the batch before: differences of before would hide
        for a minute that it was set back.
        """
        before_ns, self._booted_ns = self._booted_ns, read.time_ns - read.mono_ns
        return abs(self._booted_ns - before_ns) > SET_NS

    def _measure(self, sent_ns: int, arrived_ns: int) -> None:
        """The least difference of a minute bounds the clock's error: the rest was on its way."""
        difference = arrived_ns - sent_ns
        kept = self._differences
        if kept and arrived_ns < kept[-1][0]:  # read again: it was measured
            return
        if kept and abs(difference - kept[-1][1]) > OFFSET_WINDOW_NS:  # one of the clocks stepped
            kept.clear()
        kept.append((arrived_ns, difference))
        while kept[0][0] < arrived_ns - OFFSET_WINDOW_NS:
            kept.popleft()
        least = min(difference for _, difference in kept)
        right = -AHEAD_NS <= least <= RIGHT_NS
        if right or not self.offset_ns or abs(least - self.offset_ns) > STEADY_NS:
            self.offset_ns = 0 if right else least


OTHERS = ("open", "_differences", "_starts", "_returns", "_booted_ns")
PLAIN = tuple(each.name for each in fields(Host) if each.name not in OTHERS)


class Arrivals:
    """All hosts of a cluster."""

    def __init__(self) -> None:
        self._hosts: dict[str, Host] = {}

    @property
    def hosts(self) -> Mapping[str, Host]:
        """By name."""
        return self._hosts

    def take(
        self, host: str, batch: Batch | Received, arrived_ns: int
    ) -> Sequence[Observation | Arrival]:
        """New observations of a batch, in order. ``host`` is who the subject says it is: ValueError
        where the batch says another.
        """
        if batch.host != host:
            raise ValueError(f"a batch of {batch.host!r:.80} on the subject of {host!r:.80}")
        known = self._hosts.get(host)
        if known is None:
            known = self._hosts[host] = Host(host)
        return known.take(batch, arrived_ns)

    def resume(self, hosts: Iterable[Host]) -> None:
        """Go on with these."""
        self._hosts = {host.name: host for host in hosts}

    def forget(self, before_ns: int) -> list[str]:
        """Drop hosts that have not sent since; their names."""
        gone = [name for name, host in self._hosts.items() if host.arrived_ns < before_ns]
        for name in gone:
            del self._hosts[name]
        return gone
