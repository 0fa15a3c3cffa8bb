"""Unused GPUs: memory in use that no process holds, and GPUs that a job holds and leaves idle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from detectors.kit.block_clock import Seconds, StepClock
from detectors.kit.columns import Columns, rows_where
from detectors.kit.elapsed import Elapsed
from detectors.kit.findings import WORSE, FindingTracker, Verdict
from detectors.kit.instants import Times, ago
from detectors.kit.jobs import JobTracker
from detectors.kit.literature import NVML
from detectors.kit.page import Needs, Page, gpu_columns
from detectors.kit.stateful import Stateful
from pipeline.finding import Finding
from pipeline.frame import Frame
from pipeline.observation import Observation

S, HOUR_S = 10**9, 3600.0
# a driver that stays loaded, or a monitoring tool, holds some hundred megabytes
MIN_BYTES = 1 << 30
ORPHANED_S = 600.0  # a process that ends gives its memory back within seconds
IDLE_S = 2 * HOUR_S  # longer than loading, checkpoints and evaluations on the host take
IDLE_PERCENT = 1.0
CLEAR_S = 60.0
ORPHANED, IDLE = "waste/memory", "waste/idle"


PAGE = Page(
    formula=(
        "memory in use > 1 GiB without a process for 10 min; utilisation <= 1 % for 2 h in a job"
    ),
    sources=(f"{NVML}: nvmlDeviceGetMemoryInfo, nvmlDeviceGetComputeRunningProcesses",),
    shows=gpu_columns("memory_used_bytes", "compute_processes", "gpu_utilization_percent"),
    needs=Needs(
        60.0,
        (("gpu.memory_used_bytes",), ("gpu.gpu_utilization_percent",), ("gpu.compute_processes",)),
    ),
    next_step="Orphaned memory: reset the GPU between jobs. Idle: ask the owner of the job.",
    clears=(
        "After a minute in which the memory has a process or is free, or in which the GPU works or "
        "has no process."
    ),
    unscored="no scenario has unused GPUs, as nothing is broken there.",
)


class Waste(Stateful):
    """A ticket where memory is in use and no process holds it for ten minutes; an info finding
    where a job leaves a GPU idle for two hours.

    An idle GPU is reported again each time the hours have doubled. GPUs in MIG mode are not judged:
    their instances belong to several users.

    >>> Waste().name
    'waste'
    """

    name = "waste"
    version = 2

    def __init__(self) -> None:
        self._columns = Columns(
            orphaned_s=0.0, idle_s=0.0, fine_s=0.0, orphaned_next_s=ORPHANED_S, idle_next_s=IDLE_S
        )
        self._jobs, self._clock, self._elapsed, self._standing = (
            JobTracker(),
            StepClock(),
            Elapsed(),
            FindingTracker(self.name),
        )
        self._held = np.zeros(0, np.bool_)
        self._seen: tuple[object, int] = (None, -1)

    def update(self, observation: Observation) -> Iterable[Finding]:
        """What begins and ends with this observation."""
        self._jobs.take(observation.events)
        findings: list[Finding] = []
        for frame in observation.frames:
            if frame.kind == "gpu":
                step_s = self._clock.passed(frame, observation.boot_id)
                if step_s is not None:
                    at = self._elapsed.times(observation)
                    findings += [
                        *self._standing.swapped(frame, at),
                        *self._frame(frame, step_s, at),
                    ]
        return findings

    def _frame(self, frame: Frame, step_s: Seconds, at: Times) -> Iterator[Finding]:
        columns = self._columns
        columns.show(frame)
        step_s = columns.each(step_s)
        names = (
            "gpu_utilization_percent",
            "memory_used_bytes",
            "compute_processes",
            "graphics_processes",
            "mig_mode_current",
        )
        busy, memory, compute, graphics, mig = (columns.wide(frame.gauge(name)) for name in names)
        read = np.isfinite(busy) & np.isfinite(memory) & np.isfinite(compute) & ~(mig > 0)
        unused = read & (busy <= IDLE_PERCENT)
        nobody = (compute == 0) & ~(graphics > 0)
        orphaned = unused & nobody & (memory >= MIN_BYTES)
        idle = unused & ~orphaned & (self._of_jobs() | (compute > 0))
        for name, holds in (("orphaned_s", orphaned), ("idle_s", idle)):
            columns[name] = np.where(
                read, np.where(holds, columns[name] + step_s, 0.0), columns[name]
            )
            columns.reset(read & ~holds, f"{name.removesuffix('_s')}_next_s")
        columns["fine_s"] = np.where(
            read, np.where(orphaned | idle, 0.0, columns["fine_s"] + step_s), columns["fine_s"]
        )
        yield from self._report(memory, at)
        yield from self._standing.due(at)
        if findings := self._standing.all():
            yield from self._end(findings, at)

    def _of_jobs(self) -> NDArray[np.bool_]:
        """Rows that a job has according to the scheduler."""
        seen = (self._columns.devices, self._jobs.version)
        if seen[0] is not self._seen[0] or seen[1] != self._seen[1]:
            self._seen = seen
            self._held = np.array(
                [bool(self._jobs.of(gpu.host, gpu.id)) for gpu in self._columns.devices], np.bool_
            )
        return self._held

    def _report(self, memory: NDArray[np.float64], at: Times) -> Iterator[Finding]:
        columns = self._columns
        for open_one in self._standing.all():
            row = columns.row(open_one.device)
            if row is not None and columns["fine_s"][row] == 0 and np.isfinite(memory[row]):
                self._standing.still(open_one.device, open_one.fault, at)
        for row in rows_where(
            (columns["orphaned_s"] >= columns["orphaned_next_s"]) & np.isfinite(memory)
        ):
            since_s = float(columns["orphaned_s"][row])
            columns["orphaned_next_s"][row] = np.inf
            yield from self._standing.holds(
                columns.devices[row],
                _orphaned(float(memory[row])),
                at,
                ago(at, columns.devices[row], since_s),
            )
        for row in rows_where(columns["idle_s"] >= columns["idle_next_s"]):
            gpu, since_s = columns.devices[row], float(columns["idle_s"][row])
            columns["idle_next_s"][row] = WORSE * since_s
            verdict = _idle(self._jobs.of(gpu.host, gpu.id), since_s / HOUR_S)
            yield from self._standing.holds(gpu, verdict, at, ago(at, gpu, since_s))

    def _end(self, findings: list[Finding], at: Times) -> Iterator[Finding]:
        for finding in findings:
            row = self._columns.row(finding.device)
            other = "orphaned_s" if finding.fault == IDLE else "idle_s"
            if (
                row is not None
                and max(self._columns["fine_s"][row], self._columns[other][row]) >= CLEAR_S
            ):
                yield from self._standing.ends(finding.device, finding.fault, at)


def _orphaned(memory: float) -> Verdict:
    gibibytes = memory / (1 << 30)
    return Verdict(
        ORPHANED,
        "ticket",
        "COMPONENT_RESET",
        (
            f"{gibibytes:.0f} GiB of its memory are in use and no process holds them: the "
            "next job will not fit."
        ),
        (
            (
                f"utilisation 0, no compute or graphics process, {gibibytes:.1f} GiB in use for "
                f"{ORPHANED_S / 60:.0f} minutes"
            ),
        ),
        gibibytes,
        0.0,
        "gibibytes",
    )


def _idle(job: str, hours: float) -> Verdict:
    whose = f"Job {job}" if job else "A process"
    return Verdict(
        IDLE,
        "record",
        "NONE",
        f"{whose} holds this GPU and has not used it for {hours:.0f} h.",
        (f"utilisation at most {IDLE_PERCENT:.0f} % for {hours:.1f} h",),
        hours,
        0.0,
        "hours",
    )
