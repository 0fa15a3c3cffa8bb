"""The verdict of the cluster: batches in, findings and incidents out. No network, no thread.

What is judged together depends on the stream alone, on the times at which the broker stored its
messages: seconds close at instants of a fixed grid of those. So gateways that read the same stream
come to the same verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from time import thread_time
from typing import Any, NamedTuple

from numpy.typing import NDArray

from detectors.kit.stateful import from_text_array, text_array
from gateway.arrivals import Arrivals, Host
from gateway.ingest.reading import InProcess, Reading
from gateway.source_names import SourceNames
from gateway.ticks import Tick, Ticks
from gateway.unjudged import Unjudged
from pipeline.arrival import Arrival
from pipeline.bus import subjects
from pipeline.catalog import fleet
from pipeline.clock import SECOND_NS
from pipeline.judge import Judge
from pipeline.judged import JudgedObservation
from pipeline.observation import Event, Observation
from pipeline.roster import Roster
from pipeline.seconds import FORGOTTEN_NS
from pipeline.selfmetrics import SelfMetrics

ROWS = "rows/"  # in a state
ACKNOWLEDGED = "an acknowledgement of the server, which any host can have it send here"
SILENT_NS = 60 * SECOND_NS  # counted as silent: many batches that did not come
# Hosts that come are judged from the next multiple on. With each of them, all that is known by rows
# is laid out again: half a second for 2,000 nodes, of which one may come every second for minutes.
JOIN_S = 10
STEP_NS = SECOND_NS // 5  # between two instants at which seconds may close


class JudgedSecond(NamedTuple):
    """What was found in a second, and the arrival cut's events of it."""

    second: int
    judged: tuple[JudgedObservation, ...]
    events: tuple[Event, ...]


class Fleet:
    """Joins what arrives and asks the judge, second by second. ``learnt``: events of a second by
    which it judges from then on; ``reading`` decodes the messages; ``known``
    are the sources that agents have.

    A snapshot keeps it as a detector's memory (detectors/kit/snapshot.py).
    """

    name = "fleet"
    version = 1

    def __init__(
        self,
        judge: Judge,
        metrics: SelfMetrics,
        period_ns: int,
        learnt: Callable[[int], tuple[Event, ...]] = lambda _second: (),
        reading: Reading | None = None,
        *,
        known: Collection[str] = (),
    ) -> None:
        self._reading: Reading = reading or InProcess()
        self._known = known
        self._names = SourceNames(known)
        self.arrivals, self._ticks = Arrivals(), Ticks(period_ns, JOIN_S, self._names)
        self._roster = Roster(self._reading.writing)
        self._period_ns = period_ns
        self._judge, self._metrics = judge, metrics
        self._unjudged, self._learnt = Unjudged(), learnt
        self._looked_ns = 0  # the last instant of the grid
        self._counted_ns = 0
        self._missed = self._late = self._unnamed = 0
        for metric in (fleet.BATCHES, fleet.BATCH_BYTES, fleet.REFUSED, fleet.MISSED):
            metrics.add(metric, amount=0)
        metrics.add(fleet.TOO_LATE, amount=0)
        metrics.add(fleet.OTHER_SOURCES, amount=0)
        for step in ("read", "join", "judge", "workers"):
            metrics.add(fleet.SPENT, step, amount=0)

    def offer(self, token: str, payload: bytes) -> None:
        """A message that will be taken, in the order in which they are offered. Any thread."""
        self._reading.offer(token, payload)

    def take(self, token: str, payload: bytes, stored_ns: int) -> str:
        """A message of the host that the subject's token names; why it is refused, or nothing."""
        begun_s = thread_time()
        refused = self._take(token, payload, stored_ns)
        self._spent("read", begun_s)
        return refused

    def _take(self, token: str, payload: bytes, stored_ns: int) -> str:
        self._metrics.add(fleet.BATCHES)
        self._metrics.add(fleet.BATCH_BYTES, amount=len(payload))
        try:
            batch = self._reading.read(token, payload)
            observations = self.arrivals.take(batch.host, batch, stored_ns)
        except ValueError as error:
            self._metrics.add(fleet.REFUSED)
            return ACKNOWLEDGED if payload.startswith(b'{"stream":') else str(error)
        self._add(self.arrivals.hosts[batch.host], observations, payload)
        return ""

    def _add(
        self, host: Host, observations: Sequence[Observation | Arrival], payload: bytes
    ) -> None:
        before = len(self._ticks.of_host(host.name))
        self._ticks.add(host, observations)
        waiting = len(self._ticks.of_host(host.name))
        self._unjudged.add(host.name, payload, waiting - before, host.offset_ns, waiting=waiting)

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Hosts, seconds that are open, rows, and when it looked last."""
        hosts = self.arrivals.hosts
        waiting = {name: self._ticks.of_host(name) for name in hosts}
        index, payloads = self._unjudged.state(waiting)
        about = {
            "hosts": [host.plain() for host in hosts.values()],
            "ticks": self._ticks.plain(),
            "unjudged": index,
            "counted": [self._looked_ns, self._counted_ns, self._missed, self._late],
        }
        rows = {f"{ROWS}{name}": array for name, array in self._roster.state().items()}
        return {"about": text_array(about), "payloads": payloads, **rows}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from there. KeyError, TypeError or ValueError, unchanged, where it does not fit."""
        about = from_text_array(state["about"])
        hosts = [Host.of(values) for values in about["hosts"]]
        looked_ns, counted_ns, missed, late = map(int, about["counted"])
        roster, unjudged = Roster(self._reading.writing), Unjudged()
        names = SourceNames(self._known)
        ticks = Ticks(self._period_ns, JOIN_S, names)
        roster.resume({n.removeprefix(ROWS): a for n, a in state.items() if n.startswith(ROWS)})
        ticks.resume(about["ticks"], unjudged.resume(about["unjudged"], state["payloads"]))
        self.arrivals.resume(hosts)
        self._roster, self._ticks, self._unjudged = roster, ticks, unjudged
        self._names, self._unnamed = names, 0
        self._looked_ns, self._counted_ns = looked_ns, counted_ns
        self._missed, self._late = missed, late

    def judged(self, now_ns: int) -> Iterator[JudgedSecond]:
        """What the judge finds in the seconds that close by now, which is the broker's time."""
        if not self._looked_ns:
            self._looked_ns = now_ns - now_ns % STEP_NS
        while (at_ns := self._looked_ns + STEP_NS) <= now_ns:
            if not self._ticks.waiting:  # nothing can close before more comes
                self._looked_ns = now_ns - now_ns % STEP_NS
                break
            self._looked_ns = at_ns
            yield from self._closed(at_ns)
        if now_ns - self._counted_ns >= SECOND_NS:  # for each message, it would cost more than all
            self._counted_ns = now_ns
            self._count(now_ns)

    def _closed(self, now_ns: int) -> Iterator[JudgedSecond]:
        if gone := self.arrivals.forget(now_ns - FORGOTTEN_NS):
            self._roster.forget(gone)
            self._ticks.forget(gone)
            self._judge.forget(self._names.forget(gone))
            for host in gone:
                self._reading.forget(subjects.token(host))
                self._unjudged.forget(host)
        for tick in self._ticks.closed(self.arrivals.hosts, now_ns):
            yield self._second(tick)

    def _second(self, tick: Tick) -> JudgedSecond:
        learnt = self._learnt(tick.second)
        events, judged = learnt, []
        for group in tick.groups:
            begun_s = thread_time()
            joined = self._roster.join(group)
            begun_s = self._spent("join", begun_s)
            judged.append(self._judge.judge(replace(joined, events=(*joined.events, *events))))
            self._spent("judge", begun_s)
            events = ()
        self._metrics.set(fleet.TICK, tick.second)
        self._metrics.set(fleet.HOSTS, len(tick.late), "late")
        return JudgedSecond(
            tick.second, tuple(judged), (*learnt, *self._ticks.cut.events(tick.second))
        )

    def _spent(self, step: str, begun_s: float) -> float:
        """Count this thread's CPU time since then; its time now."""
        now_s = thread_time()
        self._metrics.add(fleet.SPENT, step, amount=now_s - begun_s)
        return now_s

    def _count(self, now_ns: int) -> None:
        hosts = self.arrivals.hosts.values()
        silent = sum(host.arrived_ns < now_ns - SILENT_NS for host in hosts)
        self._metrics.set(fleet.HOSTS, len(hosts), "known")
        self._metrics.set(fleet.HOSTS, silent, "silent")
        self._metrics.set(fleet.HOSTS, sum(host.doubled for host in hosts), "doubled")
        missed = sum(host.missed for host in hosts)
        if missed > self._missed:
            self._metrics.add(fleet.MISSED, amount=missed - self._missed)
        self._missed = missed
        self._metrics.add(fleet.TOO_LATE, amount=self._ticks.too_late - self._late)
        self._late = self._ticks.too_late
        self._metrics.add(fleet.OTHER_SOURCES, amount=self._names.refused - self._unnamed)
        self._unnamed = self._names.refused
