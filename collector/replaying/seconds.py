"""Stored observations of many nodes second by second, as a gateway joins them when they arrive."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator

from collector.replaying.arrivals import is_gateway
from collector.replaying.stored import Hours
from pipeline.arrival_cut import ArrivalCut
from pipeline.clock import SECOND_NS
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation
from pipeline.seconds import corrected

log = logging.getLogger("tocsin.replay")
# Files are read in the order of their hosts' clocks. A clock that is wrong by more would need
# readings of other hours.
MAX_OFFSET_NS = 3600 * SECOND_NS


class Host:
    """The observations of one host, with the times at which they are judged."""

    def __init__(self, name: str, cut: ArrivalCut | None) -> None:
        self.name, self._cut = name, cut
        self._parts: deque[Iterator[JudgedObservation]] = deque()
        self._last_ns = 0
        self._named: set[str] = set()
        self.head: tuple[int, Observation] | None = None

    def add(self, part: Iterator[JudgedObservation]) -> None:
        """More of them, which come after those before."""
        self._parts.append(part)
        if self.head is None:
            self.head = self._next()

    def take(self, end_ns: int, judged_ns: int) -> list[Observation]:
        """Those before ``end_ns``; what lies before ``judged_ns`` comes too late."""
        taken = []
        while self.head is not None and self.head[0] < end_ns:
            time_ns, observation = self.head
            if time_ns >= judged_ns:
                taken.append(observation)
            else:
                self._name("observations of seconds that were judged before are left out")
            self.head = self._next()
        return taken

    def _next(self) -> tuple[int, Observation] | None:
        while self._parts:
            for judged in self._parts[0]:
                timed = self._timed(judged.observation)
                if timed is not None:
                    return timed
            self._parts.popleft()
        return None

    def _timed(self, one: Observation) -> tuple[int, Observation] | None:
        """At its time, by the gateway's clock."""
        if self._cut is None:
            time_ns = one.time_ns
        else:
            arrived = self._cut.arrived(one)
            if arrived is None:
                self._name("observations that the gateway did not judge are left out")
                return None
            time_ns = arrived.time_ns(one)
            if abs(time_ns - one.time_ns) > MAX_OFFSET_NS:
                self._name("its clock was wrong by more than an hour, left out")
                return None
            one = corrected(one, arrived.offset_ns, time_ns)
        # The host's order is kept, whatever its clock does.
        self._last_ns = max(self._last_ns, time_ns)
        return self._last_ns, one

    def _name(self, what: str) -> None:
        if what not in self._named:
            self._named.add(what)
            log.warning("%s: %s", self.name, what)


def seconds(
    stored: Iterable[Hours], cut: ArrivalCut | None
) -> Iterator[tuple[int, list[tuple[str, list[Observation]]]]]:
    """Each second in which anything was read, and the observations of each host in it, hosts by
    name; with ``cut`` what a gateway judged, at its times.

    What two hours of the nodes need is in memory, so that clocks may differ.
    """
    hosts: dict[str, Host] = {}
    judged_ns, slack_ns = 0, 0 if cut is None else MAX_OFFSET_NS
    for hours in stored:
        for name, node in hours.nodes:
            if not is_gateway(name):
                hosts.setdefault(name, Host(name, cut)).add(node)
        for at_ns, second in _until(hosts, hours.end_us * 1000 - slack_ns, judged_ns):
            judged_ns = at_ns + SECOND_NS
            yield at_ns, second
    yield from _until(hosts, None, judged_ns)


def _until(
    hosts: dict[str, Host], until_ns: int | None, judged_ns: int
) -> Iterator[tuple[int, list[tuple[str, list[Observation]]]]]:
    """Seconds before ``until_ns``, None for all."""
    while True:
        heads = [host.head[0] for host in hosts.values() if host.head is not None]
        if not heads or (until_ns is not None and min(heads) >= until_ns):
            return
        at_ns = min(heads) // SECOND_NS * SECOND_NS
        taken = [(n, hosts[n].take(at_ns + SECOND_NS, judged_ns)) for n in sorted(hosts)]
        judged_ns = max(judged_ns, at_ns + SECOND_NS)
        if any(mine for _, mine in taken):
            yield at_ns, [(name, mine) for name, mine in taken if mine]
