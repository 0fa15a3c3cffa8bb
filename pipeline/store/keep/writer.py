"""StoreWriter: the agent's store.

Appends to the write-ahead log, and has closed segments sealed, and
uploaded, in a short-lived child.
"""

from __future__ import annotations

import logging
import threading
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from pipeline.catalog import agent
from pipeline.child import python, run
from pipeline.clock import SECOND_NS, Clock
from pipeline.finding import Finding, Incident
from pipeline.guard import Guard, Health
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.wal import Wal, segments
from pipeline.store.keep.maintenance import MaintenanceScheduler, frugal
from pipeline.store.keep.seal_report import Losses, SealReport
from pipeline.store.keep.syncer import Syncer
from pipeline.store.remote import outbox
from pipeline.store.remote.upload_plan import CAUSES, Plan, Report

log = logging.getLogger("tocsin.store")

SEAL_TIMEOUT_S = 120.0
# after a page: long enough for what follows the first evidence, well within
# the promised ten seconds
URGENT_S = 3.0
# A segment is sealed after a quarter of an hour, or when it is so large: a node of 8 GPUs writes 30
# MB in that time, and the child that seals 32 MiB has 130 MiB (of 160) at its peak.
SEGMENT_S, SEGMENT_BYTES = 900.0, 32 << 20
# of the sealing interval, by host, so that a thousand nodes do not upload in the same second
JITTER = 0.1


Seal = Callable[[Sequence[Path]], SealReport | None]


def seal_in_child(root: Path, cluster: str, plan: Plan | None = None) -> Seal:
    """How segments are sealed for real: pyarrow is loaded in the child only, which also uploads
    by the plan and reports on it.

    The function raises SealError with the child's last line of standard error.
    """

    def seal(paths: Sequence[Path]) -> SealReport | None:
        arguments = [str(root), cluster, plan.to_json() if plan else "", *map(str, paths)]
        done = run(
            python("pipeline.store.keep.seal", *arguments), timeout_s=SEAL_TIMEOUT_S, env=frugal()
        )
        report = _report(done.stdout)
        if done.returncode != 0:
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            reason = (
                "ran past its deadline"
                if done.timed_out
                else lines[-1]
                if lines
                else "wrote nothing"
            )
            raise SealError(f"sealing ended with {done.returncode}: {reason}", report)
        return report

    return seal


class SealError(RuntimeError):
    """Sealing failed; the upload, which may have worked, has its report beside it."""

    def __init__(self, message: str, report: SealReport | None = None) -> None:
        super().__init__(message)
        self.report = report


def _report(line: bytes) -> SealReport | None:
    try:
        return SealReport.from_json(line.decode())
    except (ValueError, TypeError, KeyError):  # the child did not get so far
        return None


class StoreWriter:
    """The sink that keeps everything.

    Its own trouble (disk full, child killed) is logged once, counted, and tried again.

    ``uploads``: whether ``seal`` uploads too; the numbers about it are then born at zero.
    ``maintenance_scheduler`` is asked after each sealing.
    """

    name = "store"

    def __init__(
        self,
        root: Path,
        host: str,
        clock: Clock,
        metrics: SelfMetrics,
        *,
        seal: Seal,
        uploads: bool = False,
        maintenance_scheduler: MaintenanceScheduler | None = None,
        fsync_s: float = 1.0,
    ) -> None:
        self._directory, self._clock, self._metrics, self._seal = root / "wal", clock, metrics, seal
        self._guard = Guard(metrics, clock)
        self._syncer = Syncer()
        self.refused = ""  # why the disk did not take the newest observation
        self._maintenance_scheduler = maintenance_scheduler
        share = zlib.crc32(host.encode()) / 2**32
        self._wal = Wal(
            self._directory,
            clock,
            metrics,
            fsync_s=fsync_s,
            segment_bytes=SEGMENT_BYTES,
            segment_s=SEGMENT_S * (1 - JITTER * share),
            later=self._syncer,
        )
        self._health, self._sync_health, self._upload_health, self._room = (
            Health("sealing"),
            Health("syncing the write-ahead log"),
            Health("upload"),
            Health("room for what waits to be uploaded"),
        )
        self._urgent_ns: int | None = None
        self._retry_ns = 0
        # when the uploader wants to run again
        self._upload_ns: int | None = 0 if any(outbox.waiting(root)) else None
        self._thread: threading.Thread | None = None
        for outcome in ("ok", "failed"):
            metrics.add(agent.STORE_SEALS, outcome, amount=0)
        metrics.add(agent.STORE_LOST, amount=0)
        Losses().publish(metrics, clock.time_ns())
        if uploads:
            Report(failures=dict.fromkeys(CAUSES, 0)).publish(metrics, clock.time_ns())

    def write(
        self,
        observation: Observation,
        findings: Sequence[Finding],
        incidents: Sequence[Incident] = (),
    ) -> None:
        """Append, and seal when it is time. OSError where the disk refuses the record."""
        now = self._clock.monotonic_ns()
        if (
            any(f.severity == "page" and f.phase == "onset" for f in findings)
            and self._urgent_ns is None
        ):
            self._urgent_ns = now + round(URGENT_S * SECOND_NS)
        try:
            self._wal.write(observation, findings, incidents)
            if self._urgent_ns is not None and now >= self._urgent_ns:
                self._urgent_ns = None
                self._wal.rotate()
            self.refused = ""
        except OSError as error:
            self.refused = str(error)
            self._metrics.add(agent.STORE_LOST)
            if (
                self._maintenance_scheduler is not None
            ):  # the disk may be full of what need not be kept
                self._maintenance_scheduler.run_if_due()
            raise
        finally:
            self._synced()
            self.seal_closed(now)

    def seal_closed(self, now_ns: int) -> None:
        """Begin to seal the closed segments, or to go on uploading, if there is anything to
        do and no child is at it.
        """
        if now_ns < self._retry_ns or (self._thread is not None and self._thread.is_alive()):
            return
        closed = [path for path in segments(self._directory) if path != self._wal.path]
        if closed or (self._upload_ns is not None and now_ns >= self._upload_ns):
            self._upload_ns = None
            self._thread = threading.Thread(
                target=self._seal_all, args=(closed,), name="seal", daemon=True
            )
            self._thread.start()

    def _synced(self) -> None:
        """Account for a sync that failed: it does not stop the next record."""
        error = self._syncer.take_error()
        if error is not None:
            self._guard.failed("sink", self.name, error)
            self._sync_health.failed(str(error), self._clock.time_ns())

    def close(self, deadline_s: float = 20.0) -> None:
        """End the segment, seal what is closed within the deadline.

        What is not sealed then is sealed at the next start.
        """
        self._wal.close()
        self._syncer.wait(deadline_s)
        self._synced()
        if self._thread is not None:
            self._thread.join(deadline_s)
        self.seal_closed(self._retry_ns)
        if self._thread is not None:
            self._thread.join(deadline_s)

    def _seal_all(self, closed: Sequence[Path]) -> None:
        try:
            report = self._seal(closed)
        except (OSError, RuntimeError) as error:
            self._metrics.add(agent.STORE_SEALS, "failed")
            self._health.failed(str(error), self._clock.time_ns())
            self._retry_ns = self._clock.monotonic_ns() + 60_000_000_000
            report = error.report if isinstance(error, SealError) else None
        else:
            if closed:
                self._metrics.add(agent.STORE_SEALS, "ok")
                self._metrics.set(agent.STORE_LAST_SEAL, self._clock.time_ns() / 1e9)
            self._health.succeeded()
        if report is not None:
            self._missing(report.losses)
        if report is not None and report.upload is not None:
            self._uploaded(report.upload)
        if self._maintenance_scheduler is not None:
            self._maintenance_scheduler.run_if_due()

    def _missing(self, losses: Losses) -> None:
        losses.publish(self._metrics, self._clock.time_ns())
        for segment in losses.quarantined:
            log.warning("damaged segment of the log moved to quarantine: %s", segment)

    def _uploaded(self, report: Report) -> None:
        report.publish(self._metrics, self._clock.time_ns())
        if report.retry_s is not None:
            self._upload_ns = self._clock.monotonic_ns() + round(report.retry_s * SECOND_NS)
        now_ns, health = self._clock.time_ns(), self._upload_health
        if (
            report.failures
        ):  # the lines differ each time (names, durations): only another cause is news
            same = report.error.partition(":")[0] == health.reason.partition(":")[0]
            health.failed(health.reason if same else report.error, now_ns)
        elif report.sent_files:
            health.succeeded()
        if report.given_up_files:
            self._room.failed("the least valuable and oldest files are given up", now_ns)
        elif not report.pending_files:
            self._room.succeeded()
