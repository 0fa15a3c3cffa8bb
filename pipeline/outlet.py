"""Outlet: a bounded queue and a thread between the engine and a sink that may be slow."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from pipeline.catalog import agent
from pipeline.clock import Clock
from pipeline.finding import Finding, Incident
from pipeline.guard import Guard, Health
from pipeline.interfaces import Closable, Sink
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics

MAX_OWED = 1024  # findings, and incidents, kept for a sink that does not take them

Item = tuple[Observation, Sequence[Finding], Sequence[Incident]]


class Outlet:
    """Hands observations to a sink in its own thread.

    When the queue is full the oldest goes, is counted, and a metric says so.

    Policy drop-oldest: what a slow sink shows last should be the newest. Findings and incidents are
    said once and must arrive: those of an observation that was dropped, or that the disk refused,
    come again with the next one. So a sink gets them at least once; their ids make that harmless.
    What a sink refuses for another reason than the disk it would refuse each time, and with it all
    that comes later: it is dropped, counted and logged.
    ``start`` the thread, or ``drain`` by hand in tests.

    ``patience_s``: so long a write waits until the sink has taken it, so that what is shown after
    it is kept already; while the sink is behind nobody waits.
    """

    def __init__(
        self,
        sink: Sink,
        metrics: SelfMetrics,
        clock: Clock,
        *,
        most: int = 600,
        patience_s: float = 0.0,
    ) -> None:
        self._sink = sink
        self._metrics = metrics
        self._guard = Guard(metrics, clock)
        self._health = Health(f"sink {sink.name}")
        self._clock = clock
        self._queue: deque[Item] = deque()
        self._owed_findings: deque[Finding] = deque(maxlen=MAX_OWED)
        self._owed_incidents: deque[Incident] = deque(maxlen=MAX_OWED)
        self._most, self._patience_s = most, patience_s
        self._put = self._done = 0  # items that came, and that were delivered or dropped
        self._behind = False
        self._ready = threading.Condition()
        self._closing = False
        self._thread: threading.Thread | None = None
        metrics.add(agent.QUEUE_DROPPED, sink.name, amount=0)

    @property
    def name(self) -> str:
        """The sink's own name."""
        return self._sink.name

    def start(self) -> None:
        """Begin to drain in a thread."""
        self._thread = threading.Thread(target=self._run, name=f"sink-{self.name}", daemon=True)
        self._thread.start()

    def write(
        self,
        observation: Observation,
        findings: Sequence[Finding],
        incidents: Sequence[Incident] = (),
    ) -> None:
        """Queue it; waits for the sink no longer than the patience."""
        with self._ready:
            if len(self._queue) >= self._most:
                self._owe(self._queue.popleft())
                self._done += 1
                self._metrics.add(agent.QUEUE_DROPPED, self.name)
            self._queue.append((observation, findings, incidents))
            self._put += 1
            self._metrics.set(agent.QUEUE_LENGTH, len(self._queue), self.name)
            self._ready.notify_all()
            if self._patience_s and self._thread is not None and not self._behind:
                mine = self._put
                self._behind = not self._ready.wait_for(
                    lambda: self._done >= mine or self._closing, self._patience_s
                )

    def drain(self) -> int:
        """Write what is queued now; how many."""
        written = 0
        while (item := self._take()) is not None:
            self._deliver(item)
            written += 1
        return written

    def close(self, deadline_s: float = 5.0) -> int:
        """Drain within the deadline, then let go; how many were left, which count as dropped."""
        with self._ready:
            self._closing = True
            self._ready.notify_all()
        if self._thread is not None:
            self._thread.join(deadline_s)
        else:
            self.drain()
        with self._ready:
            left, self._queue = len(self._queue), deque()
        self._metrics.add(agent.QUEUE_DROPPED, self.name, amount=left)
        if isinstance(self._sink, Closable):
            self._guard.call("sink", self.name, self._sink.close)
        return left

    def _run(self) -> None:
        while True:
            with self._ready:
                while not self._queue and not self._closing:
                    self._ready.wait()
            item = self._take()
            if item is None:
                return
            self._deliver(item)
            with self._ready:
                self._done += 1
                self._behind = self._behind and bool(self._queue)
                self._ready.notify_all()

    def _take(self) -> Item | None:
        with self._ready:
            item = self._queue.popleft() if self._queue else None
            self._metrics.set(agent.QUEUE_LENGTH, len(self._queue), self.name)
            if item is None:
                return None
            findings, incidents = (
                (*self._owed_findings, *item[1]),
                (*self._owed_incidents, *item[2]),
            )
            self._owed_findings.clear()
            self._owed_incidents.clear()
            return item[0], findings, incidents

    def _owe(self, item: Item) -> None:
        """Remember what was said with an observation that the sink did not get.

        The lock is held.
        """
        self._owed_findings.extend(item[1])
        self._owed_incidents.extend(item[2])

    def _deliver(self, item: Item) -> None:
        _, error = self._guard.call("sink", self.name, lambda: self._sink.write(*item))
        if error is None:
            self._health.succeeded()
            return
        with self._ready:
            if isinstance(error, OSError):
                self._owe(item)
            else:
                self._metrics.add(agent.QUEUE_DROPPED, self.name)
        self._health.failed(repr(error), self._clock.time_ns())
