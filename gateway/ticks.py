"""Ticks: observations of all hosts, second by second, in the order of their corrected times.

A tick closes when every live host has sent past it, or when it is too late to wait: a watermark
with bounded idleness, as in stream engines (Apache Flink, "Generating Watermarks"). Who is late is
named and never waited for again; a host's own clock never moves the watermark beyond the gateway's.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gateway.arrivals import Host
from pipeline.clock import SECOND_NS
from pipeline.observation import Observation

LATENESS_NS = 3 * SECOND_NS  # beyond a batch's period
AHEAD_NS = SECOND_NS // 2  # a corrected time so far in the gateway's future is taken as now


@dataclass(frozen=True, slots=True)
class Tick:
    """One second: ``groups`` are observations of one source, at most one per host, to be joined;
    ``late`` are live hosts that had not sent.
    """

    second: int
    groups: tuple[tuple[Observation, ...], ...]
    late: tuple[str, ...]


class Ticks:
    """Collects and closes. ``period_ns`` is the time between two batches of a host."""

    def __init__(self, period_ns: int = 5 * SECOND_NS) -> None:
        self._period_ns = period_ns
        self._waiting: dict[str, deque[tuple[int, Observation]]] = defaultdict(deque)
        self._closed = -1  # the last second that was closed
        self.too_late = 0  # observations of seconds that were closed before they came

    def add(self, host: Host, observations: Sequence[Observation]) -> None:
        """Observations of a host, in its order."""
        latest_ns = host.arrived_ns + AHEAD_NS
        queue = self._waiting[host.name]
        for observation in observations:
            time_ns = min(observation.time_ns + host.offset_ns, latest_ns)
            if time_ns // SECOND_NS <= self._closed:
                self.too_late += 1
                continue
            if queue:  # the host's order is kept, whatever its clock does
                time_ns = max(time_ns, queue[-1][0])
            queue.append((time_ns, corrected(observation, host.offset_ns)))

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
            yield Tick(second, tuple(self._groups(end_ns)), late)
            self._closed = second

    def _next(self) -> int | None:
        times = [queue[0][0] for queue in self._waiting.values() if queue]
        return min(times) // SECOND_NS if times else None

    def _groups(self, end_ns: int) -> Iterator[tuple[Observation, ...]]:
        """Each host's observations in its order, those of a source together."""
        taken: list[list[Observation]] = []
        for name in [*self._waiting]:
            queue, mine = self._waiting[name], []
            while queue and queue[0][0] < end_ns:
                mine.append(queue.popleft()[1])
            if mine:
                taken.append(mine)
            elif not queue:
                del self._waiting[name]
        while taken:
            # The source that most hosts read next goes first, so that a host which read something
            # more once does not fall out of step.
            counts = Counter(mine[0].source for mine in taken)
            source = max(counts, key=counts.__getitem__)
            yield tuple(mine.pop(0) for mine in taken if mine[0].source == source)
            taken = [mine for mine in taken if mine]


def corrected(observation: Observation, offset_ns: int) -> Observation:
    """With unix times of the gateway; the monotonic clock is the host's own."""
    if not offset_ns:
        return observation
    return replace(
        observation,
        time_ns=observation.time_ns + offset_ns,
        frames=tuple(
            replace(frame, time_ns=frame.time_ns + offset_ns) for frame in observation.frames
        ),
        events=tuple(
            replace(event, time_ns=event.time_ns + offset_ns) for event in observation.events
        ),
    )
