"""The detector: learns what a job usually does, and names what it waits for while it does less."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.kit.block_clock import BlockMeans
from detectors.kit.blockwise import Blockwise
from detectors.kit.columns import Columns, Ring, rows_where
from detectors.kit.findings import Verdict
from detectors.kit.instants import Times, ago
from detectors.kit.jobs import JobTracker
from detectors.kit.literature import NVML
from detectors.kit.page import Needs, Page, gpu_columns
from detectors.kit.readings import duty, reading
from detectors.starvation.pressure import JobPressure, Pressure, fills, job_fills
from detectors.starvation.reasons import advice, evidence
from detectors.starvation.storage import Slow, Storage
from detectors.starvation.storage import fills as storage_fills
from detectors.starvation.waits import CODE, LESS, WAITS, Codes, waits
from pipeline.catalog.storage import DISK, MOUNT
from pipeline.finding import Finding
from pipeline.frame import Frame
from pipeline.job_names import base
from pipeline.observation import Event, Observation

Floats = NDArray[np.float64]

BLOCK_S = 60.0
USUAL = ("used", "tensor", "power", "clock")
REASONS = ("sw_thermal", "hw_thermal", "hw_power_brake", "power_cap")
LEARNED = 5  # blocks of work before anything is said of a job
PRESSURES = ("io", "cpu", "memory")
WEIGHT = 0.1  # of a new block in what is usual
# The same where the job does less than usual: a wait too small to be named must not become the
# usual within its first half hour, but another phase of the program must in time.
WEIGHT_OF_LESS = 0.01
SETTLED = 20  # blocks of work in which both count alike
WORKS_PERCENT = 20.0
# Blocks: a save of one to three minutes is no wait. What waits now and then does in so many of the
# last RECENT: a reading is of an instant, and a loader that falls behind catches up between.
AFTER, RECENT, CLEAR = 4, 8, 4
# In a row: whether tasks wait is not measured where a GPU is idle, or requests take long: an
# evaluation may use the GPU less just then. That must last.
UNMEASURED_AFTER = 10
NOBODY = np.zeros(0, np.int64)

PAGE = Page(
    formula=(
        "in 4 of 8 min: used < 0.9 of the job's usual, and beyond the usual of the time tasks wait "
        "for memory >= 1 %, input and output >= 10 % (or 100 major faults/s, or for 10 min NFS or "
        "Lustre at 5 times their usual latency), processors >= 20 %, of the job's tasks where its "
        "control group is read, else of the node's; at full use: clock < 0.95 of the usual with a "
        "throttle reason >= 30 %, or tensor activity < 2/3 of the usual; used <= 1 % for 10 min"
    ),
    sources=(
        NVML,
        "Linux, Documentation/accounting/psi.rst",
        "MLCommons, MLPerf Storage: accelerator utilisation of at least 90 %",
    ),
    shows=gpu_columns("gpu_utilization_percent", "tensor_activity_percent", "power_milliwatts"),
    needs=Needs(30.0, (("gpu.gpu_utilization_percent",),)),
    next_step=(
        "An advice for the owner of the job: data: more loader workers, a closer or faster file "
        "system; cpu: more cores, fewer threads; memory: smaller caches; communication: see the "
        "findings of the job's other nodes and links; power: the node's cooling and limits."
    ),
    clears="After four minutes in which the job does its usual work, or waits for something else.",
    scored_as=tuple(f"starvation-{wait}" for wait in WAITS[1:]),
)


class _Allocated(NamedTuple):
    """Rows of each job's GPUs on each host; and of each GPU, (gpu,), the number of that group and
    of its job, 0 where it has none.
    """

    rows: dict[tuple[str, str], list[int]]
    group: NDArray[np.int64]
    job: NDArray[np.int64]


class Starvation(Blockwise):
    """For each GPU of a job what it waits for, in minutes: an info finding, never an alert.

    What is usual is learnt in this job, from minutes in which nothing is waited for. All GPUs of a
    job on a node share the answer of most of them. Another job begins again.

    >>> Starvation().name
    'starvation'
    """

    name = "starvation"
    version = 4

    def __init__(self) -> None:
        columns = Columns(
            **BlockMeans.fills(*USUAL, "held"),
            **{f"usual_{name}": np.nan for name in (*USUAL, *PRESSURES)},
            learned=0,
            job=0,
            code=0,
            run=0,
            codes=Ring(RECENT, 0),  # of the last blocks, the newest first
            reported_wait=0,
            absent=0,  # blocks without what is reported
        )
        self._nodes, self._jobs = Columns(**fills()), JobTracker()
        self._known: tuple[object, int, _Allocated] = (None, -1, _Allocated({}, NOBODY, NOBODY))
        self._pressure = Pressure(self._nodes)
        self._job_groups = Columns(**job_fills())
        self._job_pressure = JobPressure(self._job_groups)
        self._mounts, self._disks = (Columns(**storage_fills(kind)) for kind in (MOUNT, DISK))
        self._storage = (Storage(MOUNT, self._mounts), Storage(DISK, self._disks))
        self._means = BlockMeans(columns, (*USUAL, "held"))
        super().__init__(BLOCK_S, columns)

    def update(self, observation: Observation) -> Iterable[Finding]:
        """Pressures, mounts and disks come in frames of their own."""
        for frame in observation.frames:
            if frame.kind == "node":
                self._pressure.sample(frame)
            elif frame.kind == "job_group":
                self._job_pressure.sample(frame)
            for storage in self._storage:
                if frame.kind == storage.kind:
                    storage.sample(frame)
        return super().update(observation)

    def _take_events(self, events: Iterable[Event]) -> None:
        self._jobs.take(events)

    def _sample(self, frame: Frame) -> None:
        columns = self._columns
        columns.show(frame)
        held = np.fmax.reduce([columns.wide(duty(frame, reason)) for reason in REASONS])
        self._means.add(
            used=columns.wide(reading(frame, "gpu_utilization_percent")),
            tensor=columns.wide(reading(frame, "tensor_activity_percent")),
            power=columns.wide(reading(frame, "power_milliwatts")),
            clock=columns.wide(reading(frame, "sm_clock_megahertz")),
            held=held,
        )

    def _block(self, at: Times) -> Iterator[Finding]:
        """Judge, then learn."""
        columns, means = self._columns, self._means.close()
        allocated = self._allocated()
        begins = self._other_job(allocated.job)
        usual = {name: columns[f"usual_{name}"] for name in (*USUAL, *PRESSURES)}
        slow = self._slow()
        now = {**means, **self._pressures(allocated.rows)}
        held_up = {host for host, one in slow.items() if one.clear}
        now["storage"] = np.zeros(len(columns))
        if held_up:
            now["storage"][:] = [gpu.host in held_up for gpu in columns.devices]
        known = (columns["learned"] >= LEARNED) & (columns["job"] != 0)
        found = np.where(known, waits(now, usual), 0)
        found = np.where(
            np.isfinite(means["used"]), _agreed(found, allocated.group), columns["code"]
        )
        columns["run"] = np.where(found == columns["code"], columns["run"] + 1, 1)
        columns["code"] = found
        columns["codes"] = np.vstack((found, columns["codes"][:-1]))
        seen = waits({**now, "storage": np.zeros(len(columns))}, usual)
        yield from self._report(now, slow, seen, at)
        self._learn(now, ~begins)
        less = (found > 0) | (means["used"] < LESS * usual["used"])
        waiting = {columns.devices[row].host for row in rows_where(less)}
        calm = {gpu.host for gpu in columns.devices} - waiting
        for storage in self._storage:
            storage.close(calm)

    def _pressures(self, groups: dict[tuple[str, str], list[int]]) -> dict[str, Floats]:
        """Of the job's own tasks where they are known, else of all tasks of the node, (gpu,)."""
        of_node = self._pressure.of(self._columns.devices)
        of_job = self._job_pressure.of(groups, len(self._columns))
        own = np.isfinite(of_job["io"])
        found = {
            name: np.where(np.isfinite(of_job[name]), of_job[name], values)
            if name in of_job
            else values
            for name, values in of_node.items()
        }
        return {**found, "own": own.astype(np.float64), "throttled": of_job["throttled"]}

    def _slow(self) -> dict[str, Slow]:
        """By host what holds most requests up."""
        found: dict[str, Slow] = {}
        for storage in self._storage:
            for host, one in storage.slowest().items():
                if host not in found or found[host].excess < one.excess:
                    found[host] = one
        return found

    def _allocated(self) -> _Allocated:
        """Who has which GPU; worked out again only where devices or jobs change."""
        devices, key = self._columns.devices, (self._columns.devices, self._jobs.version)
        if self._known[0] is not key[0] or self._known[1] != key[1]:
            rows = dict[tuple[str, str], list[int]]()
            for row, gpu in enumerate(devices):
                if job := self._jobs.of(gpu.host, gpu.id):
                    rows.setdefault((gpu.host, job), []).append(row)
            group, job_of = (np.zeros(len(devices), np.int64) for _ in range(2))
            for number, ((_, job), of_job) in enumerate(rows.items(), start=1):
                group[of_job], job_of[of_job] = number, 1 + zlib.crc32(base(job).encode())
            self._known = (*key, _Allocated(rows, group, job_of))
        return self._known[2]

    def _other_job(self, job_of: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which GPUs, (gpu,), have another job than a block ago: they begin again. Another step is
        the same job.
        """
        columns = self._columns
        other = np.asarray(job_of != columns["job"])
        columns.reset(other, "learned", "code", "run", "codes", *_usual())
        columns["job"] = job_of.copy()  # it is kept, and columns are written to
        return other

    def _learn(self, now: dict[str, Floats], one_job: NDArray[np.bool_]) -> None:
        """From minutes of work of ``one_job`` in which nothing is waited for."""
        columns = self._columns
        works = one_job & (columns["code"] == 0) & (now["used"] >= WORKS_PERCENT)
        works &= columns["job"] != 0
        near = ~(now["used"] < 0.5 * columns["usual_used"])  # a pause within is none of it
        settled = columns["learned"] >= SETTLED
        for name in (*USUAL, *PRESSURES):
            old = columns[f"usual_{name}"]
            less = settled & (now[name] < old) & (name in USUAL)
            weight = np.where(less, WEIGHT_OF_LESS, WEIGHT)
            new = np.where(np.isnan(old), now[name], old + weight * (now[name] - old))
            take = works & near & np.isfinite(now[name])
            columns[f"usual_{name}"] = np.where(take, new, old)
        columns["learned"] = columns["learned"] + (works & near)

    def _report(
        self, now: dict[str, Floats], slow: dict[str, Slow], seen: Codes, at: Times
    ) -> Iterator[Finding]:
        """``seen`` is what is waited for by what is measured of tasks and GPUs alone."""
        columns = self._columns
        codes, reported = columns["code"], columns["reported_wait"]
        latency_alone = (codes == CODE["data"]) & (seen != codes) & (reported != codes)
        unmeasured = latency_alone | (codes == CODE["nothing"])
        recent = np.count_nonzero(columns["codes"] == codes, axis=0)
        due = (codes > 0) & np.where(
            unmeasured, columns["run"] >= UNMEASURED_AFTER, recent >= AFTER
        )
        other = (reported > 0) & (codes != reported)
        columns["absent"] = np.where(other, columns["absent"] + 1, 0)
        ends = other & ((columns["absent"] >= CLEAR) | due)
        for row in rows_where(ends):
            gpu = columns.devices[row]
            yield from self._standing.ends(gpu, _fault(int(reported[row])), at)
        columns["reported_wait"] = np.where(ends, 0, reported)
        begins = due & (columns["reported_wait"] == 0)
        for row in rows_where(due):
            gpu, code = columns.devices[row], int(columns["code"][row])
            if begins[row]:
                since = ago(at, gpu, self._blocks(row) * BLOCK_S)
                verdict = self._verdict(row, code, now, slow.get(gpu.host))
                yield from self._standing.holds(gpu, verdict, at, since)
            else:
                self._standing.still(gpu, _fault(code), at)
        columns["reported_wait"] = np.where(begins, columns["code"], columns["reported_wait"])
        yield from self._standing.due(at)

    def _blocks(self, row: int) -> int:
        """How many blocks ago a GPU began to wait for what it waits for now: now and then, of the
        last RECENT, or all the time.
        """
        alike = rows_where(self._columns["codes"][:, row] == self._columns["code"][row])
        return max(int(self._columns["run"][row]), 1 + int(max(alike)))

    def _verdict(self, row: int, code: int, now: dict[str, Floats], slow: Slow | None) -> Verdict:
        gpu, what = self._columns.devices[row], WAITS[code]
        used, usual = float(now["used"][row]), float(self._columns["usual_used"][row])
        values = {name: float(column[row]) for name, column in now.items()}
        return Verdict(
            _fault(code),
            "record",
            "NONE",
            f"Job {self._jobs.of(gpu.host, gpu.id)} waits: {advice(what, values, slow)}.",
            evidence(what, values, usual, slow),
            used,
            usual,
            "percent",
        )


def _usual() -> list[str]:
    return [f"usual_{name}" for name in (*USUAL, *PRESSURES)]


def _fault(code: int) -> str:
    return f"starvation/{WAITS[code]}"


def _agreed(codes: Codes, group: NDArray[np.int64]) -> Codes:
    """The answer of most GPUs of each job on each node; of equally many the stronger."""
    among = (group * len(WAITS) + codes)[group > 0]
    counts = np.bincount(among, minlength=(int(group.max(initial=0)) + 1) * len(WAITS))
    agreed = counts.reshape(-1, len(WAITS)).argmax(axis=1)[group]
    return np.where(group > 0, agreed, 0)
