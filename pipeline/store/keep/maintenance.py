"""The agent's side of upkeep: when the compacting child runs, and the metrics of its
runs.

Light: pyarrow is loaded in the child only.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

from pipeline.catalog import agent
from pipeline.child import python, run
from pipeline.clock import SECOND_NS, Clock
from pipeline.guard import Health
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.keep.policy import Policy, Upkeep

log = logging.getLogger("tocsin.store")

EVERY_S = 900.0
HELD_BACK = (
    "more than a day of data is past its retention, and is deleted day by day; if the clock is "
    "right, `tocsin compact --once --confirm-removal` deletes it at once"
)
TIMEOUT_S = 1800.0  # at lowest priority on a busy node, with days to catch up on


def frugal() -> dict[str, str]:
    """Environment of a child with pyarrow: what its allocator (mimalloc) frees goes back to the
    system at once, not after a while.

    A day of eight GPUs is compacted in two thirds of the memory, and in no more time.
    """
    return {**os.environ, "MIMALLOC_PURGE_DELAY": "0"}


def upkeep_in_child(root: Path, policy: Policy) -> Callable[[], Upkeep]:
    """How upkeep is done for real. Raises RuntimeError with the child's last line of standard
    error.
    """

    def upkeep() -> Upkeep:
        done = run(
            python("pipeline.store.keep.upkeep", str(root), policy.to_json()),
            timeout_s=TIMEOUT_S,
            env=frugal(),
        )
        if done.returncode == 0:
            return Upkeep.from_json(done.stdout.decode())
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        reason = (
            "ran past its deadline" if done.timed_out else lines[-1] if lines else "wrote nothing"
        )
        raise RuntimeError(f"upkeep ended with {done.returncode}: {reason}")

    return upkeep


class MaintenanceScheduler:
    """Runs ``upkeep`` in a thread of its own, at most once every quarter of an hour.

    A failure is logged once and counted.
    """

    def __init__(self, clock: Clock, metrics: SelfMetrics, upkeep: Callable[[], Upkeep]) -> None:
        self._clock, self._metrics, self._upkeep = clock, metrics, upkeep
        self._health, self._retention = Health("upkeep of the store"), Health("retention")
        self._named: set[str] = set()
        self._next_ns = 0
        self._thread: threading.Thread | None = None
        for outcome in ("ok", "failed"):
            metrics.add(agent.STORE_UPKEEPS, outcome, amount=0)
        metrics.add(agent.STORE_QUARANTINED, amount=0)

    def run_if_due(self) -> None:
        """Begin a run, unless one is at it or the last one began a short while ago."""
        now = self._clock.monotonic_ns()
        if now >= self._next_ns and (self._thread is None or not self._thread.is_alive()):
            self._next_ns = now + round(EVERY_S * SECOND_NS)
            self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)
            self._thread.start()

    def wait(self, deadline_s: float) -> None:
        """Let a run that goes on end within the deadline.

        One that does not is no harm: it may be killed at any time.
        """
        if self._thread is not None:
            self._thread.join(deadline_s)

    def _run(self) -> None:
        try:
            report = self._upkeep()
        except (OSError, RuntimeError, ValueError) as error:
            self._metrics.add(agent.STORE_UPKEEPS, "failed")
            self._health.failed(str(error), self._clock.time_ns())
            return
        self._metrics.add(agent.STORE_UPKEEPS, "ok")
        self._health.succeeded()
        report.publish(self._metrics, self._clock.time_ns())
        for file in report.quarantined:
            log.warning("unreadable file of the store moved to quarantine: %s", file)
        for file in report.fresh:
            log.warning("damaged file of the store, left where it is: %s", file)
        for stranger in report.skipped_names:
            if stranger not in self._named:
                self._named.add(stranger)
                log.warning("left alone in the store: %s", stranger)
        if report.held_back:
            self._retention.failed(HELD_BACK, self._clock.time_ns())
        else:
            self._retention.succeeded()
        for table, reasons in report.removed.items():
            for reason, size in reasons.items():
                log.info("deleted %d bytes of %s: %s", size, table, reason)
