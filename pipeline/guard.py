"""Guards: every stage is timed, its failures are counted by cause, and the others go on."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from pipeline.catalog import agent
from pipeline.clock import Clock
from pipeline.selfmetrics import SelfMetrics

log = logging.getLogger("tocsin.engine")
T = TypeVar("T")

FAILURES_BEFORE_BACKOFF = 3
MAX_BACKOFF_S = 60.0


class Guard:
    """Calls a stage: its result, or the exception as a value."""

    def __init__(self, metrics: SelfMetrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock

    def call(
        self, stage: str, name: str, work: Callable[[], T]
    ) -> tuple[T | None, Exception | None]:
        """(result, None) or (None, error); time and failure are counted under (stage, name)."""
        began = self._clock.monotonic_ns()
        try:
            return work(), None
        except Exception as error:
            self.failed(stage, name, error)
            return None, error
        finally:
            self._metrics.add(
                agent.STAGE_SECONDS, stage, name, amount=(self._clock.monotonic_ns() - began) / 1e9
            )

    def failed(self, stage: str, name: str, error: BaseException) -> None:
        """Count a failure that was caught elsewhere."""
        self._metrics.add(agent.STAGE_FAILURES, stage, name, type(error).__name__)


@dataclass(slots=True)
class Health:
    """Whether something that may fail is failing now: says so once when it
    begins and once when it ends.
    """

    what: str
    failures: int = 0
    since_ns: int = 0
    reason: str = field(default="")

    def failed(self, reason: str, now_ns: int) -> None:
        """One more failure in a row; the first, and a new reason, are logged."""
        if self.failures == 0:
            self.since_ns = now_ns
        self.failures += 1
        if reason != self.reason:
            log.warning("%s fails: %s", self.what, reason)
            self.reason = reason

    def succeeded(self) -> None:
        """It works; said if it did not before."""
        if self.failures:
            log.info("%s recovered after %d failures", self.what, self.failures)
        self.failures, self.reason = 0, ""


def backoff_s(failures: int, period_s: float, rng: random.Random) -> float:
    """Pause after so many failures in a row, seconds: none for the first two, then full jitter
    below a doubling, capped bound.

    Full jitter: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015. Never shorter
    than the period's own tick.
    """
    if failures < FAILURES_BEFORE_BACKOFF:
        return 0.0
    bound = min(
        period_s * 2.0 ** min(failures - FAILURES_BEFORE_BACKOFF + 1, 30),
        max(MAX_BACKOFF_S, period_s),
    )
    return rng.uniform(0.0, bound)
