"""The engine: reads what is due, judges it, fans it out.

A source that waits or hangs costs itself; the others go on.
"""

from __future__ import annotations

import logging
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from pipeline.catalog import agent
from pipeline.clock import SECOND_NS, Clock, Instant, instant
from pipeline.frame import Device
from pipeline.guard import Guard, Health, backoff_s
from pipeline.interfaces import Closable, Sink, Source
from pipeline.judge import Judge
from pipeline.judged import JudgedObservation
from pipeline.observation import Event, Observation, Outcome, Reading
from pipeline.selfmetrics import SelfMetrics
from pipeline.timetable import Timetable
from pipeline.unread_log import UnreadLog

log = logging.getLogger("tocsin.engine")

MAX_REASONS = 20  # of what could not be read, shown per source
LATE_PERIODS, MIN_LATE_S = 3, 3.0  # as for stale readings (pipeline/exposition/latest.py)
WATCH_S = 1.0  # between two looks at the clocks and at the reads that run
MAX_WAIT_S = 5.0  # of a lane: a step of the wall clock may have moved its tick
# the first reads go one after the other; one that takes longer holds the next no more
FIRST_READ_S = 3.0


@dataclass(frozen=True, slots=True)
class Schedule:
    """A source with its period and the time after which a read counts as
    overdue, both in seconds.
    """

    source: Source
    period_s: float
    deadline_s: float


@dataclass(slots=True)
class _Busy:
    """A read that is running: since when, and whether it was given up."""

    began: Instant
    overdue: bool = False


class Engine:
    """One timetable, a lane of reads for every source, one judge, any number of sinks.

    ``start`` gives every source a *lane* (a thread) of its own, and one more that looks at the
    clocks and at the reads that run: one that outlives its deadline is published as overdue, and
    its source rejoins when the read returns, if ever. ``step`` does all that is due in the calling
    thread instead. First reads go in the order of ``schedules``: the kernel log wants to know the
    GPUs. ``wait`` is how a lane waits (seconds), so that a fake clock can jump.
    """

    def __init__(
        self,
        *,
        host: str,
        boot_id: str,
        clock: Clock,
        schedules: Sequence[Schedule],
        judge: Judge,
        sinks: Sequence[Sink],
        metrics: SelfMetrics,
        rng: random.Random | None = None,
        wait: Callable[[float], object] | None = None,
        first_seq: int = 0,
    ) -> None:
        self._host, self._boot_id, self._clock, self._metrics = host, boot_id, clock, metrics
        self._schedules = {s.source.name: s for s in schedules}
        if len(self._schedules) != len(schedules):
            raise ValueError("two sources have the same name")
        self._judge, self._sinks = judge, tuple(sinks)
        self._guard = Guard(metrics, clock)
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not secrets
        self._stopping = threading.Event()
        self._wait = wait or self._stopping.wait
        self._health = {name: Health(f"source {name}") for name in self._schedules}
        self._unread = {name: UnreadLog(name) for name in self._schedules}
        self._rounds = Health("engine")
        self._sink_health = {s.name: Health(f"sink {s.name}") for s in sinks}
        periods = {name: round(s.period_s * SECOND_NS) for name, s in self._schedules.items()}
        self._table = Timetable(periods, clock.time_ns(), clock.monotonic_ns())
        self._plan = threading.Lock()  # guards the timetable and the reads that run
        # one observation at a time is numbered, judged and fanned out
        self._publish = threading.Lock()
        self._busy: dict[str, _Busy] = {}
        # When a read of each source last succeeded; first of all, the start.
        self._fresh_ns = dict.fromkeys(self._schedules, clock.monotonic_ns())
        self._closed = self._silent = False
        self._threads: list[threading.Thread] = []
        self._seq = first_seq
        self._beat_ns = clock.monotonic_ns()
        metrics.add(agent.CLOCK_STEPS, amount=0)
        for name in self._schedules:
            metrics.add(agent.SOURCE_SKIPPED, name, amount=0)

    @property
    def seq(self) -> int:
        """Number of the next observation."""
        return self._seq

    @property
    def sources(self) -> frozenset[str]:
        """Names of the sources that it reads."""
        return frozenset(self._schedules)

    def start(self, first_seq: int | None = None) -> None:
        """Begin to read, every source in a lane of its own; the first
        observation gets this number.
        """
        if first_seq is not None:
            self._seq = first_seq
        self._open_lane("watch", self._watch)
        before: threading.Event | None = None
        for name in self._schedules:
            before = self._open_lane(name, partial(self._turn, name), before)

    @property
    def judge(self) -> Judge:
        """Who judges."""
        return self._judge

    def publish(self, source: str, events: Sequence[Event]) -> bool:
        """Something happened that no source reads: number, judge and fan it out now, as of a source
        of that name; False after the close.
        """
        return self._emit(source, self._now(), 0, Reading(events=tuple(events)))

    def alive(self, within_s: float = 30.0) -> bool:
        """Whether observations could be published within this time."""
        return (self._clock.monotonic_ns() - self._beat_ns) / 1e9 <= within_s

    def step(self) -> float:
        """Read, judge and publish everything that is due now; seconds until the next tick."""
        self._watch()
        return min((self._turn(name) for name in self._schedules), default=WATCH_S)

    def close(self, deadline_s: float = 5.0) -> None:
        """Stop reading, let the read that runs end within the deadline, close sources.

        Sinks are their owner's. Safe to call twice.
        """
        if self._closed:
            return
        self._closed = True
        self._stopping.set()
        began = self._clock.monotonic_ns()
        for thread in self._threads:
            thread.join(max(deadline_s - (self._clock.monotonic_ns() - began) / 1e9, 0.0))
        # what still runs comes too late: another engine may be numbering by now
        rest_s = max(deadline_s - (self._clock.monotonic_ns() - began) / 1e9, 0.0)
        published = self._publish.acquire(timeout=rest_s)  # what is just being judged
        self._silent = True
        if published:
            self._publish.release()
        for name, schedule in self._schedules.items():
            if name not in self._busy and isinstance(schedule.source, Closable):
                self._guard.call("source", name, schedule.source.close)

    def _open_lane(
        self, name: str, turn: Callable[[], float], before: threading.Event | None = None
    ) -> threading.Event:
        """A thread that takes its turns; the event is set after the first, which comes after
        that of the lane ``before``.
        """
        first = threading.Event()
        thread = threading.Thread(
            target=self._run, args=(turn, before, first), name=f"lane-{name}", daemon=True
        )
        self._threads.append(thread)
        thread.start()
        return first

    def _run(
        self, turn: Callable[[], float], before: threading.Event | None, first: threading.Event
    ) -> None:
        if before is not None:
            before.wait(FIRST_READ_S)
        while not self._stopping.is_set():
            pause, error = self._guard.call("engine", "round", turn)
            if error is not None:  # ours, not a plug-in's: say it and go on reading
                self._rounds.failed(repr(error), self._clock.time_ns())
            first.set()
            self._wait(WATCH_S if pause is None else pause)

    def _turn(self, name: str) -> float:
        """Read a source if it is due; seconds until it is."""
        with self._plan:
            due = self._table.due(name, self._clock.monotonic_ns())
        if due:
            self._read(name)
        with self._plan:
            next_ns = self._table.next_ns(name)
        now = self._clock.monotonic_ns()
        return MAX_WAIT_S if next_ns is None else min(max(next_ns - now, 0) / 1e9, MAX_WAIT_S)

    def _watch(self) -> float:
        """Look at the clocks and at the reads that run; seconds until the next look."""
        with self._publish:  # a judge or sink that never returns holds this, and the beat stops
            self._beat_ns = self._clock.monotonic_ns()
        self._look_at_clocks()
        for name, busy in self._late():
            self._settle(
                name, busy.began, None, "overdue", "the read did not return within its deadline"
            )
        for name, schedule in self._schedules.items():
            old_s = (self._clock.monotonic_ns() - self._fresh_ns[name]) / SECOND_NS
            late = old_s > max(LATE_PERIODS * schedule.period_s, MIN_LATE_S)
            self._metrics.set(agent.SOURCE_LATE, float(late), name)
        return WATCH_S

    def _late(self) -> list[tuple[str, _Busy]]:
        """Reads that are past their deadline since the last look: given up."""
        now = self._clock.monotonic_ns()
        with self._plan:
            late = [
                (name, busy)
                for name, busy in self._busy.items()
                if not busy.overdue
                and now - busy.began.mono_ns > self._schedules[name].deadline_s * SECOND_NS
            ]
            for name, busy in late:
                busy.overdue = True
                self._table.park(name)
        return late

    def _read(self, name: str) -> None:
        began = self._now()
        with self._plan:
            self._busy[name] = busy = _Busy(began)
        reading, error = self._guard.call("source", name, self._schedules[name].source.read)
        with self._plan:
            del self._busy[name]
            if self._silent:  # another engine may be reading by now, or nobody
                return
            if busy.overdue:  # already reported as given up: only the schedule needs to know
                self._metrics.add(
                    agent.SOURCE_SKIPPED,
                    name,
                    amount=self._table.done(name, self._clock.monotonic_ns()),
                )
                return
        if error is None:
            self._settle(name, began, reading, "ok")
        else:
            self._settle(name, began, None, "failed", f"{type(error).__name__}: {error}")

    def _settle(
        self, name: str, began: Instant, reading: Reading | None, outcome: Outcome, error: str = ""
    ) -> None:
        """Account for a read that has ended or was given up, and publish it."""
        now, health = self._clock.monotonic_ns(), self._health[name]
        if outcome == "ok":
            health.succeeded()
        else:
            health.failed(error, began.time_ns)
        self._plan_next(name, now, outcome)
        self._metrics.add(agent.SOURCE_READS, name, outcome)
        self._metrics.set(agent.SOURCE_SUCCESS, float(outcome == "ok"), name)
        self._metrics.set(agent.SOURCE_DURATION, (now - began.mono_ns) / 1e9, name)
        if reading is not None:
            self._fresh_ns[name] = began.mono_ns
            self._metrics.set(agent.SOURCE_LAST_SUCCESS, began.time_ns / 1e9, name)
            reasons = Counter(unread.reason for unread in reading.unread).most_common(MAX_REASONS)
            self._metrics.replace(
                agent.SOURCE_UNREAD, {(name, reason): float(n) for reason, n in reasons}, name
            )
            self._unread[name].note(reading.unread, now)
        self._emit(
            name, began, now - began.mono_ns, reading or Reading(), outcome=outcome, error=error
        )

    def _plan_next(self, name: str, now: int, outcome: Outcome) -> None:
        """The next tick, later for a source that keeps failing.

        One that is overdue gets its next tick when its read returns.
        """
        if outcome == "overdue":
            return
        pause = backoff_s(self._health[name].failures, self._schedules[name].period_s, self._rng)
        with self._plan:
            skipped = self._table.done(name, now)
            if pause:
                self._table.delay(name, now + round(pause * SECOND_NS))
        self._metrics.add(agent.SOURCE_SKIPPED, name, amount=skipped)
        self._metrics.set(agent.SOURCE_BACKOFF, pause, name)

    def _emit(
        self,
        source: str,
        began: Instant,
        duration_ns: int,
        reading: Reading,
        *,
        outcome: Outcome = "ok",
        error: str = "",
    ) -> bool:
        """Number, judge and fan out: one observation at a time. False where it came too late."""
        parts = (reading.frames, reading.events, reading.unread)
        with self._publish:
            if self._silent:
                return False
            number = (self._seq, began.time_ns, began.mono_ns, duration_ns)
            self._seq += 1
            seen = Observation(source, self._host, self._boot_id, *number, *parts, outcome, error)
            judged, failure = self._guard.call("engine", "judge", lambda: self._judge.judge(seen))
            if failure is not None:
                self._rounds.failed(repr(failure), began.time_ns)
            for sink in self._sinks:
                self._show(sink, judged or JudgedObservation(seen))
        return True

    def _show(self, sink: Sink, judged: JudgedObservation) -> None:
        _, failure = self._guard.call("sink", sink.name, lambda: sink.write(*judged))
        if failure is None:
            self._sink_health[sink.name].succeeded()
        else:
            self._sink_health[sink.name].failed(repr(failure), judged.observation.time_ns)

    def _now(self) -> Instant:
        return instant(self._clock)

    def _look_at_clocks(self) -> None:
        with self._plan:
            now = self._now()
            stepped = self._table.realign(now.time_ns, now.mono_ns)
        if stepped:
            log.warning("the wall clock was stepped by %+.3f s", stepped)
            self._metrics.add(agent.CLOCK_STEPS)
            node = Device(self._host, "node", self._host)
            event = Event(now.time_ns, now.mono_ns, node, "clock_step", {"seconds": stepped})
            self.publish("engine", (event,))
