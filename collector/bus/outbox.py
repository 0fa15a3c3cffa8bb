"""What waits to be sent: a minute of observations, the oldest dropped first."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from threading import Lock

from pipeline.bus.batch import MAX_OPEN, Batch
from pipeline.catalog import agent
from pipeline.clock import SECOND_NS, Clock
from pipeline.finding import Incident
from pipeline.judged import JudgedObservation
from pipeline.selfmetrics import SelfMetrics

KEPT_NS = 60 * SECOND_NS  # older observations are of no use to a live verdict: the store has them
MAX_WAITING = 4096  # observations, should a source ever observe much faster than once a second


class Outbox:
    """Hands out batches in order. Any thread may put, one takes.

    ``start`` is random per start of the agent and leaves it in batches only: who knows it could
    have the server drop this agent's batches as duplicates.
    """

    def __init__(self, host: str, start: str, metrics: SelfMetrics, clock: Clock) -> None:
        self._host, self.start = host, start
        self._metrics, self._clock = metrics, clock
        self._waiting: deque[tuple[int, JudgedObservation]] = deque()
        self._open: dict[str, Incident] = {}
        self._number, self._previous = 0, -1
        self._lock = Lock()
        metrics.add(agent.BUS_DROPPED, amount=0)

    def resume(self, incidents: Sequence[Incident]) -> None:
        """What was open in the agent's last life."""
        with self._lock:
            self._open |= {incident.id: incident for incident in incidents}

    def put(self, judged: JudgedObservation) -> bool:
        """Queue one; whether it should be sent at once: something happened."""
        with self._lock:
            for incident in judged.incidents:
                self._open.pop(incident.id, None)
                if incident.active:
                    self._open[incident.id] = incident
            self._waiting.append((self._clock.monotonic_ns(), judged))
            self._drop_old()
        return bool(judged.observation.events or judged.findings or judged.incidents)

    def take(self, most: int) -> Batch | None:
        """The next batch, of at most so many observations; None where nothing waits."""
        with self._lock:
            self._drop_old()
            taken = tuple(self._waiting.popleft()[1] for _ in range(min(most, len(self._waiting))))
            if not taken:
                return None
            batch = Batch(
                self._host,
                self.start,
                self._number,
                self._previous,
                self._clock.time_ns(),
                taken,
                tuple(self._open.values())[-MAX_OPEN:],
            )
            self._number, self._previous = self._number + 1, taken[-1].observation.seq
            return batch

    def give_back(self, batch: Batch) -> None:
        """What was too large for one message: it comes again, in smaller parts."""
        now_ns = self._clock.monotonic_ns()
        with self._lock:
            self._waiting.extendleft((now_ns, judged) for judged in reversed(batch.judged))
            self._number, self._previous = batch.number, batch.previous

    def lost(self, batch: Batch) -> None:
        """It was never acknowledged, and nobody will send it again."""
        self._metrics.add(agent.BUS_DROPPED, amount=len(batch.judged))

    def __len__(self) -> int:
        return len(self._waiting)

    def _drop_old(self) -> None:
        oldest_ns = self._clock.monotonic_ns() - KEPT_NS
        dropped = 0
        while self._waiting and (
            self._waiting[0][0] < oldest_ns or len(self._waiting) > MAX_WAITING
        ):
            self._waiting.popleft()
            dropped += 1
        if dropped:
            self._metrics.add(agent.BUS_DROPPED, amount=dropped)
