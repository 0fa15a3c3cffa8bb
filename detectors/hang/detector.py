"""Stalled jobs: no GPU of a job moves data for longer than is usual for that job; names the GPU
that the others wait for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from detectors.hang import clocks, words
from detectors.hang.activity import BUSY, FREE, IDLE, LOST, Activity
from detectors.hang.counts import Counts
from detectors.hang.members import JobKey, Members
from detectors.hang.pauses import EVIDENCE_S
from detectors.hang.progress import Progress, crawl
from detectors.hang.stages import IDLE_REPORTED, REPORTED, stages_of
from detectors.hang.stalls import StallsByJob
from detectors.hang.suspects import PROVED, Member, Reach, blame, crawling
from detectors.kit.block_clock import Seconds, StepClock
from detectors.kit.columns import Columns, rows_where
from detectors.kit.elapsed import Elapsed
from detectors.kit.findings import RANK, FindingTracker
from detectors.kit.instants import Times, instant_of
from detectors.kit.jobs import in_job
from detectors.kit.literature import LLAMA
from detectors.kit.page import Needs, Page, Shown
from detectors.kit.stateful import Stateful
from pipeline.clock import SECOND_NS, Instant
from pipeline.finding import Finding
from pipeline.frame import Device, Frame
from pipeline.observation import Event, Observation
from pipeline.small_arrays import any_true
from pipeline.xid.table import xid_entry

BACK_S = 30.0  # of work after which a stall is over
OVER_S = 60.0  # without any process a job has ended, whatever the scheduler reports
# A hardware error shows up to so long before the job stops (the driver
# retries), or while it is stalled.
XID_BEFORE_NS = 120 * SECOND_NS
SERIOUS = "page"
LINKS = ("link_down", "hca_health")


PAGE = Page(
    formula=(
        "all members quiet (or few compute and the others wait) for longer than max(180 s, twice "
        "the job's own pauses): ticket; 3 to 6 times them, or 3 h where none are known: page; "
        "page after 60 s when a process is gone or a GPU had a serious XID; root cause: dead rank, "
        "rank with an error, the few that are idle or compute alone, the last to stop"
    ),
    sources=(
        LLAMA,
        "NVIDIA, NCCL documentation: NCCL_TIMEOUT and the RAS subsystem",
        "PyTorch, torch.distributed.init_process_group: timeout, 10 minutes for NCCL",
        "Greyhound (ATC'25): a checkpoint of 100 minutes",
    ),
    shows=(
        Shown("gpu", "gpu_utilization_percent"),
        Shown("gpu", "power_milliwatts"),
        Shown("ib_port", "transmit_words"),
    ),
    needs=Needs(
        10.0,
        (
            ("gpu.gpu_utilization_percent",),
            ("gpu.tensor_activity_percent", "gpu.sm_activity_percent", "gpu.power_milliwatts"),
        ),
    ),
    next_step=(
        "Ask the job's ranks (tocsin nccl status) whether one writes a checkpoint; if none does, "
        "end the job, and drain the node of the root cause before it starts again."
    ),
    clears=(
        "When GPUs of the job have worked for half a minute, when none of them had a process for a "
        "minute, or when the scheduler reports the end of the job. A pause that ends so is learnt."
    ),
    scored_as=("hang",),
)


class Hang(Stateful):
    """Finds from GPU readings alone which jobs are stalled, and which of their
    GPUs the others wait for.

    A rank that writes a checkpoint to slow storage looks like one that hangs: a ticket after three
    minutes, and a page once the pause is far out of what this job, or jobs of its user, name and
    size, did before. Jobs known to copy to the host while they save page after three minutes (seven
    when all are idle), as do all jobs after one minute when a process is gone or its driver
    reported a serious error. A rank that computes while all others wait is a ticket after eleven
    minutes, a job at less than 15 % of its usual speed after ten. On one node of several a stall
    whose culprit is not here is an info finding; where no source reports jobs it is a ticket. It
    ends when the job works again or is over.

    >>> Hang().name
    'hang'
    """

    name = "hang"
    version = 8

    def __init__(self) -> None:
        self._columns = Columns(
            **Activity.fills(),
            **Members.fills(),
            **Progress.fills(),
            worked_ns=0,
            xid_ns=0,
            xid=0,
            link_ns=0,
        )
        self._activity, self._members = Activity(self._columns), Members(self._columns)
        self._progress = Progress(self._columns)
        self._clock, self._elapsed = StepClock(), Elapsed()
        self._standing, self._told = FindingTracker(self.name), StallsByJob()
        self._crawls = StallsByJob()

    def update(self, observation: Observation) -> Iterable[Finding]:
        """What begins and ends with this observation."""
        said: list[Finding] = []
        at = self._elapsed.times(observation)
        self._members.take(observation)
        for event in observation.events:
            self._evidence(event, at)
        for frame in observation.frames:
            if frame.kind == "gpu":
                step_s = self._clock.passed(frame, observation.boot_id)
                if step_s is not None:
                    said += self._frame(frame, step_s, at)
        return said

    def _evidence(self, event: Event, at: Times) -> None:
        """Keep what may explain a stall later: serious XIDs by GPU, dead links by node."""
        columns = self._columns
        if (
            event.kind == "xid"
            and not event.attributes.get("before_start")
            and not event.attributes.get("previous_boot")
        ):
            row, code = columns.row(event.device), event.attributes.get("code")
            if row is not None and isinstance(code, int) and xid_entry(code).level == SERIOUS:
                now_ns = instant_of(at, event.device).mono_ns
                columns["xid"][row], columns["xid_ns"][row] = code, now_ns
        elif event.kind in LINKS:
            for row, gpu in enumerate(columns.devices):
                if gpu.host == event.device.host:
                    columns["link_ns"][row] = instant_of(at, gpu).mono_ns

    def _frame(self, frame: Frame, passed_s: Seconds, at: Times) -> Iterator[Finding]:
        columns, members = self._columns, self._members
        columns.show(frame)
        for job in members.look():
            yield from self._end(job, at, "the job is over")
        does = self._activity.look(frame, passed_s)
        columns["joined"] |= (does == BUSY) & (members.group >= 0)
        now_ns = columns.each(at.mono_ns)
        columns["worked_ns"] = np.where(does == BUSY, now_ns, columns["worked_ns"])
        members.part((does == IDLE) | (does == FREE) | (does == LOST))
        if len(members.of):
            yield from self._jobs(np.where(columns["joined"], does, -1), passed_s, at)
        yield from self._standing.due(at)

    def _jobs(self, does: NDArray[np.int64], passed_s: Seconds, at: Times) -> Iterator[Finding]:
        """Move every job's clocks on, and report its stalls.

        ``does`` is -1 for rows that never worked for the job.
        """
        members, of = self._members, self._members.of
        step_s = of.each(passed_s)
        counts = Counts.of(members, does)
        still, kind = counts.pauses()
        moves, copies = (
            members.count(shown & self._columns["joined"]) > 0
            for shown in (self._activity.moves, self._activity.copies)
        )
        clocks.advance(members, counts, still, step_s, moves=moves, copies=copies)
        clocks.pause(members, still, kind, step_s)
        if any_true(still):
            # out_s is 0 when so many are first seen to be gone, which may be a step after they left
            gone = (of["out"] > 0) & (of["out_s"] >= EVIDENCE_S - step_s)
            xids = members.count((does >= 0) & self._fresh("xid_ns", at)) > 0
            stage, limits = stages_of(members, still, gone | xids)
            for job in rows_where(stage > of["stage"]):
                of["stage"][job] = stage[job]
                report_s, page_s = (float(limit[job]) for limit in limits)
                yield from self._stalls(job, does, (report_s, page_s), at)
        for job in rows_where((of["stage"] > 0) & (of["back_s"] >= BACK_S) & (of["silent_s"] == 0)):
            of["stage"][job] = of["proved"][job] = 0.0
            yield from self._end(members.key(job), at, "the job works again")
        for job in rows_where(of["over_s"] >= OVER_S):
            members.forget(job)
            yield from self._end(members.key(job), at, "its processes have left")
        yield from self._speeds(does, counts, still, at, passed_s)
        self._confirm(still, at)

    def _confirm(self, still: NDArray[np.bool_], at: Times) -> None:
        """Stalls and crawls that were reported and go on."""
        of = self._members.of
        crawls = (of["crawl_stage"] > 0) & ~still
        for now, reported in ((still & (of["stage"] > 0), self._told), (crawls, self._crawls)):
            for job in rows_where(now):
                key = self._members.key(job)
                for device, fault in reported.of(key):
                    self._standing.of(key.realm).still(device, fault, _now(at, key))

    def _speeds(
        self,
        does: NDArray[np.int64],
        counts: Counts,
        still: NDArray[np.bool_],
        at: Times,
        passed_s: Seconds,
    ) -> Iterator[Finding]:
        """Jobs that go on, at a fraction of their usual speed."""
        members, of = self._members, self._members.of
        self._progress.look(members, self._activity.shows, does, still, passed_s)
        begins, ends = crawl(members, counts, still, of.each(passed_s))
        for job in rows_where(begins):
            of["crawl_stage"][job] = REPORTED
            yield from self._crawling(job, does, at)
        for job in rows_where(ends):
            of["crawl_stage"][job] = 0.0
            members.remember(job)
            key = members.key(job)
            for device, fault in self._crawls.pop(key):
                yield from self._standing.of(key.realm).ends(
                    device, fault, _now(at, key), "the job is as fast as before"
                )

    def _fresh(self, column: str, at: Times) -> NDArray[np.bool_]:
        """Rows where something happened shortly before their job stopped, or since, (row,)."""
        members, happened = self._members, self._columns[column]
        silent_ns = np.zeros(len(happened))
        here = members.group >= 0
        silent_ns[here] = members.of["silent_s"][members.group[here]] * SECOND_NS
        fresh: NDArray[np.bool_] = (happened > 0) & (
            self._columns.each(at.mono_ns) - happened <= silent_ns + XID_BEFORE_NS
        )
        return fresh

    def _stalls(
        self,
        job: int,
        does: NDArray[np.int64],
        limits_s: tuple[float, float],
        at: Times,
    ) -> Iterator[Finding]:
        of, key, who = self._members.of, self._members.key(job), self._who(job, does, at)
        name, now, standing = key.name, _now(at, key), self._standing.of(key.realm)
        found = blame(who, Device("", "job", name), self._reach(job, who))
        stage, proved = int(of["stage"][job]), found.fault in PROVED
        of["proved"][job] = proved
        if stage == IDLE_REPORTED and found.severity == "record" and not self._guessed(job):
            found = replace(found, severity="ticket")
        silent_s = float(of["silent_s"][job])
        if silent_s < limits_s[1] and found.severity == "page" and not proved:
            found = replace(found, severity="ticket")
        verdict = words.stalled(found, name, who, silent_s, limits_s)
        self._told.add(key, found.culprits, found.fault)
        onset_ns = now.time_ns - round(silent_s * SECOND_NS)
        for device in found.culprits:
            open_one = standing.get(device, found.fault)
            if open_one is None or RANK[open_one.severity] < RANK[found.severity]:
                yield from standing.holds(
                    in_job(device, name),
                    verdict,
                    now,
                    onset_ns,
                    recurred=found.severity == "page",  # the job has worked since the last stall
                )

    def _crawling(self, job: int, does: NDArray[np.int64], at: Times) -> Iterator[Finding]:
        key, who = self._members.key(job), self._who(job, does, at)
        name, standing = key.name, self._standing.of(key.realm)
        found = crawling(who, Device("", "job", name), self._reach(job, who))
        speed, since_s = 1 - float(self._members.of["slow"][job]), self._members.of["crawl_s"][job]
        self._crawls.add(key, found.culprits, found.fault)
        verdict = words.crawls(found, name, who, speed, float(since_s))
        for device in found.culprits:
            yield from standing.holds(in_job(device, name), verdict, _now(at, key))

    def _who(self, job: int, does: NDArray[np.int64], at: Times) -> list[Member]:
        """The members of a job, with what each of them does."""
        columns, now = self._columns, _now(at, self._members.key(job))
        xids, links = self._fresh("xid_ns", at), self._fresh("link_ns", at)
        return [
            Member(
                columns.devices[row],
                int(does[row]),
                int(columns["xid"][row]) if xids[row] else 0,
                bool(links[row]),
                (now.mono_ns - int(columns["worked_ns"][row])) / SECOND_NS,
                bool(columns["witnessed"][row]),
            )
            for row in self._members.rows(job).tolist()
        ]

    def _guessed(self, job: int) -> bool:
        return bool(self._members.of["guessed"][job])

    def _reach(self, job: int, who: list[Member]) -> Reach:
        if self._guessed(job):
            return "no job"
        hosts = self._members.hosts(self._members.key(job))
        if hosts is None:
            return "unknown"
        return "here" if hosts <= len({member.gpu.host for member in who}) else "beyond"

    def _end(self, job: JobKey, at: Times, why: str) -> Iterator[Finding]:
        for device, fault in (*self._told.pop(job), *self._crawls.pop(job)):
            yield from self._standing.of(job.realm).ends(device, fault, _now(at, job), why)


def _now(at: Times, job: JobKey) -> Instant:
    """The instant of the node that a job ends at, or of all."""
    return at if isinstance(at, Instant) else at.only(job.realm)
