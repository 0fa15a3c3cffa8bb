"""Stalled jobs: no GPU of a job moves data for longer than is usual for that job; names the GPU
that the others wait for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from detectors.hang import pauses, words
from detectors.hang.activity import BUSY, FREE, IDLE, LOST, Activity
from detectors.hang.counts import Counts
from detectors.hang.members import Members
from detectors.hang.pauses import ALL_WAIT, ALONE, CRAWLS, EVIDENCE_S, STARVES, WAITS
from detectors.hang.progress import CRAWL, MEAN_S, PACE_S, STEP_S, WELL, Progress
from detectors.hang.stalls import StallsByJob
from detectors.hang.suspects import PROVED, Member, Reach, blame, crawling
from detectors.kit.block_clock import StepClock
from detectors.kit.columns import Columns, rows_where
from detectors.kit.elapsed import Elapsed
from detectors.kit.findings import RANK, FindingTracker
from detectors.kit.jobs import in_job
from detectors.kit.literature import LLAMA
from detectors.kit.page import Page, Shown
from detectors.kit.stateful import Stateful
from pipeline.clock import SECOND_NS, Instant
from pipeline.finding import Finding
from pipeline.frame import Device, Frame
from pipeline.observation import Event, Observation
from pipeline.xid.table import xid_entry

BREAK_S = 15.0  # a stir shorter than this is no end of a pause
BACK_S = 30.0  # of work after which a stall is over
OVER_S = 60.0  # without any process a job has ended, whatever the scheduler reports
# A hardware error shows up to so long before the job stops (the driver
# retries), or while it is stalled.
XID_BEFORE_NS = 120 * SECOND_NS
SERIOUS = "page"
# How far a pause was reported: not at all; as a ticket; as a page; of one steady node, as a ticket.
NOT_YET, REPORTED, PAGED, IDLE_REPORTED = range(4)
# time constant of the share of time in which a job works, shorter while it is young
DUTY_S, MIN_DUTY_S = 3600.0, 600.0
LINKS = ("link_down", "hca_health")


PAGE = Page(
    formula=(
        "all members quiet (or few compute and the others wait) for longer than max(180 s, twice "
        "the job's own pauses): ticket; 3 to 6 times them, or 2 h where none are known: page; "
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
    version = 3

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
        at = self._elapsed.at(observation)
        self._members.take(observation.events)
        for event in observation.events:
            self._evidence(event, at)
        for frame in observation.frames:
            if frame.kind == "gpu":
                step_s = self._clock.step(frame.mono_ns, observation.boot_id)
                if step_s is not None:
                    said += self._frame(frame, step_s, at)
        return said

    def _evidence(self, event: Event, at: Instant) -> None:
        """Keep what may explain a stall later: serious XIDs by GPU, dead links by node."""
        columns = self._columns
        if (
            event.kind == "xid"
            and not event.attributes.get("before_start")
            and not event.attributes.get("previous_boot")
        ):
            row, code = columns.row(event.device), event.attributes.get("code")
            if row is not None and isinstance(code, int) and xid_entry(code).level == SERIOUS:
                columns["xid"][row], columns["xid_ns"][row] = code, at.mono_ns
        elif event.kind in LINKS:
            for row, gpu in enumerate(columns.devices):
                if gpu.host == event.device.host:
                    columns["link_ns"][row] = at.mono_ns

    def _frame(self, frame: Frame, step_s: float, at: Instant) -> Iterator[Finding]:
        columns, members = self._columns, self._members
        columns.place(frame.devices)
        for job in members.look():
            yield from self._end(job, at, "the job is over")
        does = self._activity.look(frame, step_s)
        columns["joined"] |= (does == BUSY) & (members.group >= 0)
        columns["worked_ns"] = np.where(does == BUSY, at.mono_ns, columns["worked_ns"])
        members.part((does == IDLE) | (does == FREE) | (does == LOST))
        if members.names:
            does = np.where(columns["joined"], does, -1)
            yield from self._jobs(does, step_s, at)
            yield from self._speeds(does, step_s, at)
        yield from self._standing.due(at)

    def _jobs(self, does: NDArray[np.int64], step_s: float, at: Instant) -> Iterator[Finding]:
        """Move every job's clocks on, and report its stalls.

        ``does`` is -1 for rows that never worked for the job.
        """
        members, of = self._members, self._members.of
        counts = Counts.of(members, does)
        still, kind = counts.pauses()
        self._clocks(counts, still, step_s)
        self._pauses(still, kind, step_s)
        known, jobs = members.known(), np.arange(len(still))
        kind = of["kind"].astype(np.int64)
        report, page = (
            limit(known)[kind, jobs] for limit in (pauses.report_after, pauses.page_after)
        )
        # out_s is 0 when so many are first seen to be gone, which may be a step after they left.
        proved = (kind != STARVES) & (
            (of["out_s"] >= EVIDENCE_S - step_s) | (self._recent_xids(does, at) > 0)
        )
        report, page = (np.where(proved, EVIDENCE_S, limit) for limit in (report, page))
        idles = (kind == STARVES) & (of["steady"] >= pauses.STEADY) & (
            of["worked_s"] >= pauses.STEADY_AFTER_S
        )  # fmt: skip
        idle_report = np.where(idles, np.maximum(report, pauses.IDLE_REPORT_S), np.inf)
        paused = np.where(still, of["silent_s"], 0.0)
        stage = np.where(paused >= report, REPORTED, NOT_YET)
        stage = np.where((paused >= page) & (stage > NOT_YET), PAGED, stage)
        stage = np.where(paused >= idle_report, IDLE_REPORTED, stage)
        for job in rows_where(stage > of["stage"]):
            of["stage"][job] = stage[job]
            yield from self._stalls(job, does, (float(report[job]), float(page[job])), at)
        for job in rows_where((of["stage"] > 0) & (of["back_s"] >= BACK_S) & (of["silent_s"] == 0)):
            of["stage"][job] = of["proved"][job] = 0.0
            yield from self._end(members.names[job], at, "the job works again")
        for job in rows_where(of["over_s"] >= OVER_S):
            members.forget(job)
            yield from self._end(members.names[job], at, "its processes have left")

    def _clocks(self, counts: Counts, still: NDArray[np.bool_], step_s: float) -> None:
        """How long each job has worked, copied, been back or over."""
        of, n, works, out = self._members.of, counts.n, counts.works, counts.out
        at_work = (works > 0) & (2 * works >= n)
        of["worked_s"] += step_s * at_work
        of["back_s"] = np.where((works > 0) & ~still, of["back_s"] + step_s, 0.0)
        of["over_s"] = np.where((n > 0) & (out == n), of["over_s"] + step_s, 0.0)
        of["out_s"] = np.where((out > 0) & (out == of["out"]), of["out_s"] + step_s, 0.0)
        of["out"] = out.astype(np.float64)
        weight = step_s / np.clip(of["worked_s"], MIN_DUTY_S, DUTY_S)
        of["duty"] += np.where(n > 0, weight * (at_work - of["duty"]), 0.0)
        of["steady"] = np.where(at_work, of["duty"], of["steady"])
        copies = self._members.count(self._activity.copies & self._columns["joined"])
        begins = (works == 0) & (of["silent_s"] == 0)  # a stir within a pause is no save
        of["moving_s"] += step_s * (begins & (counts.moves > 0))
        of["copied_s"] += step_s * (begins & (copies > 0))
        for job in rows_where(at_work & (of["moving_s"] > of["moved_s"])):
            of["moved_s"][job] = of["moving_s"][job]
            self._members.remember(job)
        for name in ("moving_s", "copied_s"):
            of[name] = np.where(at_work, 0.0, of[name])

    def _pauses(self, still: NDArray[np.bool_], kind: NDArray[np.int64], step_s: float) -> None:
        """Count the seconds of a pause; learn how long it was when it ended by itself."""
        members, of = self._members, self._members.of
        begins, before = of["silent_s"] == 0, of["kind"].astype(np.int64)
        # one that waits among others was not read for a moment, or has died now
        alike = ((kind == WAITS) | (kind == ALL_WAIT)) & ((before == WAITS) | (before == ALL_WAIT))
        goes_on = still & ((kind == before) | begins | alike)
        kind = np.where(~begins & alike & (before == WAITS), WAITS, kind)
        of["silent_s"] = np.where(goes_on, of["silent_s"] + of["broken_s"] + step_s, of["silent_s"])
        of["broken_s"] = np.where(goes_on | (of["silent_s"] == 0), 0.0, of["broken_s"] + step_s)
        of["kind"] = np.where(goes_on, kind, of["kind"])
        ended = of["broken_s"] >= BREAK_S
        if ended.any():
            of["longest_s"], of["number"] = pauses.learnt(
                members.known(), of["silent_s"], before, ended & (of["proved"] == 0)
            )
            for job in rows_where(ended):
                members.remember(job)
            of["kind"] = np.where(ended, kind, of["kind"])
            of["silent_s"] = np.where(ended, np.where(still, of["broken_s"], 0.0), of["silent_s"])
            of["broken_s"] = np.where(ended, 0.0, of["broken_s"])

    def _speeds(self, does: NDArray[np.int64], step_s: float, at: Instant) -> Iterator[Finding]:
        """Jobs that go on, at a fraction of their usual speed."""
        members, of, group = self._members, self._members.of, self._members.group
        counts = Counts.of(members, does)
        still, _ = counts.pauses()
        low, here = of["slow"] > 1 - CRAWL, (group >= 0) & (does >= 0)
        usual = here.copy()
        usual[here] = ~(low | still)[group[here]]
        share = self._progress.look(
            self._activity.shows, does == BUSY, usual & (does == BUSY), step_s
        )
        seen = here & np.isfinite(share)
        total = np.bincount(group[seen], share[seen], minlength=len(members.names))
        n = members.count(seen)
        weight = min(step_s / MEAN_S, 1.0)
        slow = 1 - total / np.maximum(n, 1)
        of["slow"] += np.where(n > 0, weight * (slow - of["slow"]), 0.0)
        of["still_s"] = np.where(counts.works > 0, 0.0, of["still_s"] + step_s)
        goes = (
            (of["slow"] > 1 - CRAWL)
            & (of["still_s"] <= STEP_S)
            & ~(still & (of["kind"] == ALONE))
            & (of["stage"] == 0)
        )
        of["crawl_s"] += step_s * goes
        known = members.known()
        limit = pauses.report_after(known)[CRAWLS]
        steady = (of["steady"] >= pauses.STEADY) & (of["worked_s"] >= PACE_S / 2)
        for job in rows_where(steady & (of["crawl_s"] >= limit) & (of["crawl_stage"] == 0)):
            of["crawl_stage"][job] = REPORTED
            yield from self._crawling(job, does, at)
        well = of["slow"] < 1 - WELL
        kind = np.full(len(well), CRAWLS)
        of["longest_s"], of["number"] = pauses.learnt(known, of["crawl_s"], kind, well)
        of["crawl_s"] = np.where(well, 0.0, of["crawl_s"])
        for job in rows_where(well & (of["crawl_stage"] > 0)):
            of["crawl_stage"][job] = 0.0
            members.remember(job)
            for device, fault in self._crawls.pop(members.names[job]):
                yield from self._standing.ends(device, fault, at, "the job is as fast as before")

    def _recent_xids(self, does: NDArray[np.int64], at: Instant) -> NDArray[np.int64]:
        return self._members.count((does >= 0) & self._fresh("xid_ns", at))

    def _fresh(self, column: str, at: Instant) -> NDArray[np.bool_]:
        """Rows where something happened shortly before their job stopped, or since, (row,)."""
        members, happened = self._members, self._columns[column]
        silent_ns = np.zeros(len(happened))
        here = members.group >= 0
        silent_ns[here] = members.of["silent_s"][members.group[here]] * SECOND_NS
        fresh: NDArray[np.bool_] = (happened > 0) & (
            at.mono_ns - happened <= silent_ns + XID_BEFORE_NS
        )
        return fresh

    def _stalls(
        self,
        job: int,
        does: NDArray[np.int64],
        limits_s: tuple[float, float],
        at: Instant,
    ) -> Iterator[Finding]:
        of, name, who = self._members.of, self._members.names[job], self._who(job, does, at)
        found = blame(who, Device("", "job", name), self._reach(job, who))
        stage, proved = int(of["stage"][job]), found.fault in PROVED
        of["proved"][job] = proved
        if stage == IDLE_REPORTED and found.severity == "record" and not self._guessed(job):
            found = replace(found, severity="ticket")
        silent_s = float(of["silent_s"][job])
        if silent_s < limits_s[1] and found.severity == "page" and not proved:
            found = replace(found, severity="ticket")
        verdict = words.stalled(found, name, who, silent_s, limits_s)
        self._told.add(name, found.culprits, found.fault)
        onset_ns = at.time_ns - round(silent_s * SECOND_NS)
        for device in found.culprits:
            open_one = self._standing.get(device, found.fault)
            if open_one is None or RANK[open_one.severity] < RANK[found.severity]:
                yield from self._standing.holds(in_job(device, name), verdict, at, onset_ns)

    def _crawling(self, job: int, does: NDArray[np.int64], at: Instant) -> Iterator[Finding]:
        name, who = self._members.names[job], self._who(job, does, at)
        found = crawling(who, Device("", "job", name), self._reach(job, who))
        speed, since_s = 1 - float(self._members.of["slow"][job]), self._members.of["crawl_s"][job]
        self._crawls.add(name, found.culprits, found.fault)
        verdict = words.crawls(found, name, who, speed, float(since_s))
        for device in found.culprits:
            yield from self._standing.holds(in_job(device, name), verdict, at)

    def _who(self, job: int, does: NDArray[np.int64], at: Instant) -> list[Member]:
        """The members of a job, with what each of them does."""
        columns = self._columns
        xids, links = self._fresh("xid_ns", at), self._fresh("link_ns", at)
        return [
            Member(
                columns.devices[row],
                int(does[row]),
                int(columns["xid"][row]) if xids[row] else 0,
                bool(links[row]),
                (at.mono_ns - int(columns["worked_ns"][row])) / SECOND_NS,
                bool(columns["witnessed"][row]),
            )
            for row in self._members.rows(job).tolist()
        ]

    def _guessed(self, job: int) -> bool:
        return bool(self._members.guessed[job])

    def _reach(self, job: int, who: list[Member]) -> Reach:
        if self._guessed(job):
            return "no job"
        hosts = self._members.hosts(job)
        if hosts is None:
            return "unknown"
        return "here" if hosts <= len({member.gpu.host for member in who}) else "beyond"

    def _end(self, job: str, at: Instant, why: str) -> Iterator[Finding]:
        for device, fault in (*self._told.pop(job), *self._crawls.pop(job)):
            yield from self._standing.ends(device, fault, at, why)
