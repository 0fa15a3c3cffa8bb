"""The verdict of the cluster: batches in, findings and incidents out. No network, no thread."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.arrivals import Arrivals
from gateway.roster import Roster
from gateway.ticks import Ticks
from pipeline.bus import subjects
from pipeline.bus.batch import BatchError, decode
from pipeline.catalog import fleet
from pipeline.clock import SECOND_NS
from pipeline.judge import Judge
from pipeline.judged import JudgedObservation
from pipeline.selfmetrics import SelfMetrics

# A host that sent nothing for so long has left; an agent that is upgraded is back in a minute.
FORGOTTEN_NS = 900 * SECOND_NS


class Fleet:
    """Joins what arrives and asks the judge, second by second."""

    def __init__(self, judge: Judge, metrics: SelfMetrics, period_ns: int) -> None:
        self.arrivals, self._ticks, self._roster = Arrivals(), Ticks(period_ns), Roster()
        self._judge, self._metrics = judge, metrics
        self._missed = self._late = 0
        for metric in (fleet.BATCHES, fleet.BATCH_BYTES, fleet.REFUSED, fleet.MISSED):
            metrics.add(metric, amount=0)
        metrics.add(fleet.TOO_LATE, amount=0)

    def take(self, token: str, payload: bytes, stored_ns: int) -> str:
        """A message of the host that the subject's token names; why it is refused, or nothing."""
        self._metrics.add(fleet.BATCHES)
        self._metrics.add(fleet.BATCH_BYTES, amount=len(payload))
        try:
            batch = decode(payload)
            if subjects.token(batch.host) != token:
                raise BatchError(f"a batch of {batch.host!r:.80} on the subject of {token!r:.80}")
            observations = self.arrivals.take(batch.host, batch, stored_ns)
        except ValueError as error:
            self._metrics.add(fleet.REFUSED)
            return str(error)
        self._ticks.add(self.arrivals.hosts[batch.host], observations)
        return ""

    def judged(self, now_ns: int) -> Iterator[JudgedObservation]:
        """What the judge found in the seconds that closed by now, which is the bus's time."""
        if gone := self.arrivals.forget(now_ns - FORGOTTEN_NS):
            self._roster.forget(gone)
        late = 0
        for tick in self._ticks.closed(self.arrivals.hosts, now_ns):
            for group in tick.groups:
                yield self._judge.judge(self._roster.join(group))
            late = len(tick.late)
            self._metrics.set(fleet.TICK, tick.second)
            self._metrics.set(fleet.HOSTS, late, "late")
        self._count()

    def _count(self) -> None:
        hosts = self.arrivals.hosts.values()
        self._metrics.set(fleet.HOSTS, len(hosts), "known")
        self._metrics.set(fleet.HOSTS, sum(host.doubled for host in hosts), "doubled")
        missed = sum(host.missed for host in hosts)
        if missed > self._missed:
            self._metrics.add(fleet.MISSED, amount=missed - self._missed)
        self._missed = missed
        self._metrics.add(fleet.TOO_LATE, amount=self._ticks.too_late - self._late)
        self._late = self._ticks.too_late
