"""Ticks: observations of all hosts, second by second, in the order of their corrected times.

A tick closes when every live host has sent past it, or when it is too late to wait: a watermark
with bounded idleness, as in stream engines (Apache Flink, "Generating Watermarks"). Who is late is
named and never waited for again; a host's own clock never moves the watermark beyond the gateway's.
Hosts join at multiples of some seconds, so that those that come one after the other do so together.
Readings that come too late are dropped; those with events are judged in the next second, or a
broker that has no leader for longer than that would cost an incident.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.arrivals import AHEAD_NS, Host
from gateway.cut import Cut
from gateway.source_names import SourceNames
from pipeline.arrival import Arrival
from pipeline.clock import SECOND_NS
from pipeline.observation import Observation
from pipeline.seconds import corrected, groups_of

Read = Observation | Arrival
Timed = tuple[int, Read]  # with the time at which it is judged

LATENESS_NS = 3 * SECOND_NS  # beyond a batch's period


@dataclass(frozen=True, slots=True)
class Tick:
    """One second: ``groups`` are observations of one source, at most one per host, to be joined;
    ``late`` are live hosts that had not sent.
    """

    second: int
    groups: tuple[tuple[Read, ...], ...]
    late: tuple[str, ...]


class Ticks:
    """Collects and closes. ``period_ns`` is the time between two batches of a host, ``join_s`` the
    seconds at whose multiples hosts join, ``names`` the sources that are judged.
    """

    def __init__(
        self,
        period_ns: int = 5 * SECOND_NS,
        join_s: int = 1,
        names: SourceNames | None = None,
    ) -> None:
        self._period_ns, self._join_ns = period_ns, join_s * SECOND_NS
        self._joins_ns: dict[str, int] = {}  # of hosts that are not judged yet
        self._waiting: dict[str, deque[Timed]] = defaultdict(deque)
        self._last_ns: dict[str, int] = {}  # of the last observation that was taken
        self._closed = -1  # the last second that was closed
        self.cut = Cut()
        self._names = names or SourceNames()
        self.too_late = 0  # observations of seconds that were closed before they came

    @property
    def waiting(self) -> bool:
        """Whether any second is open."""
        return any(self._waiting.values())

    def plain(self) -> dict[str, Any]:
        """Everything but what waits, as plain values."""
        return {
            "last": self._last_ns,
            "joins": self._joins_ns,
            "closed": self._closed,
            "late": self.too_late,
            "cut": self.cut.plain(),
            "sources": self._names.plain(),
        }

    def of_host(self, name: str) -> Sequence[Timed]:
        """What waits of a host, with the times at which it will be judged."""
        return self._waiting.get(name, ())

    def resume(self, values: Mapping[str, Any], waiting: Mapping[str, deque[Timed]]) -> None:
        """Go on with what ``plain`` gave and what waited. KeyError, TypeError or ValueError,
        unchanged, where it is something else.
        """
        last_ns, closed = dict(values["last"]), int(values["closed"])
        cut, late = Cut.of(values["cut"]), int(values["late"])
        # older snapshots have neither
        self._names.resume(values.get("sources", {}))
        self._joins_ns = dict(values.get("joins", {}))
        self._last_ns, self._closed, self.cut, self.too_late = last_ns, closed, cut, late
        self._waiting = defaultdict(deque, waiting)

    def add(self, host: Host, observations: Sequence[Read]) -> None:
        """Observations of a host, in its order."""
        latest_ns = host.arrived_ns + AHEAD_NS
        queue, last_ns, gap = self._waiting[host.name], self._last_ns.get(host.name, 0), host.gap
        for observation in observations:
            if not self._names.admit(host.name, observation.source):
                self.cut.lost(host.name)
                continue
            # No second after a later one, whatever the host's clock does. Within a second its own
            # times stay: sources that are read at the same time take turns.
            earliest_ns = last_ns - last_ns % SECOND_NS
            time_ns = min(max(observation.time_ns + host.offset_ns, earliest_ns), latest_ns)
            if time_ns // SECOND_NS > self._closed:
                if not self._joined(host.name, observation, time_ns):
                    self.cut.lost(host.name)
                    continue
                last_ns = time_ns
            elif observation.events:  # a reading comes again, what happened does not
                time_ns = (self._closed + 1) * SECOND_NS
            else:
                self.too_late += 1
                self.cut.lost(host.name)
                continue
            self.cut.taken(observation, time_ns, host.offset_ns, gap=gap)
            gap = False
            queue.append((time_ns, corrected(observation, host.offset_ns, time_ns)))
        if last_ns:
            self._last_ns[host.name] = last_ns

    def _joined(self, name: str, observation: Read, time_ns: int) -> bool:
        """Whether an observation is judged: a host joins at a multiple, or with what happened."""
        if name in self._last_ns or self._join_ns <= SECOND_NS:
            return True
        joins_ns = self._joins_ns.setdefault(name, -(-time_ns // self._join_ns) * self._join_ns)
        if time_ns < joins_ns and not observation.events:
            return False
        self._last_ns[name] = time_ns
        del self._joins_ns[name]
        return True

    def closed(self, hosts: Mapping[str, Host], now_ns: int) -> Iterator[Tick]:
        """Seconds that are complete, or can no longer be waited for, oldest first."""
        live = [
            host
            for host in hosts.values()
            if host.arrived_ns >= now_ns - 2 * self._period_ns - LATENESS_NS
        ]
        through_ns = min((host.through_ns for host in live), default=now_ns)
        patience_ns = now_ns - self._period_ns - LATENESS_NS
        last = max(min(through_ns, now_ns), patience_ns) // SECOND_NS - 1
        while (second := self._next()) is not None and second <= last:
            end_ns = (second + 1) * SECOND_NS
            late = tuple(sorted(host.name for host in live if host.through_ns < end_ns))
            for name in late:
                self.cut.lost(name)
            yield Tick(second, tuple(self._groups(end_ns)), late)
            self._closed = second

    def _next(self) -> int | None:
        times = [queue[0][0] for queue in self._waiting.values() if queue]
        return min(times) // SECOND_NS if times else None

    def _groups(self, end_ns: int) -> Iterator[tuple[Read, ...]]:
        """Observations of all hosts, those of a source together."""
        taken: list[list[Read]] = []
        for name in sorted(self._waiting):  # not as they came: each gateway joins alike
            queue, mine = self._waiting[name], []
            while queue and queue[0][0] < end_ns:
                mine.append(queue.popleft()[1])
            if mine:
                taken.append(mine)
            elif not queue:
                del self._waiting[name]
        yield from groups_of(taken)

    def forget(self, hosts: Sequence[str]) -> None:
        """Hosts that are gone."""
        for host in hosts:
            self.cut.lost(host)
            self._last_ns.pop(host, None)
            self._joins_ns.pop(host, None)
