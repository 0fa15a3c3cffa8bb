"""Stalled jobs: no GPU of a job moves data for longer than is usual for that job; names the GPU
that the others wait for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from detectors.hang.activity import BUSY, FREE, IDLE, LOST, MOVING, SPINS, UNKNOWN, Activity
from detectors.hang.members import Members
from detectors.hang.pauses import EVIDENCE_S, STARVES, WAITS, learnt, patience
from detectors.hang.stalls import StallsByJob
from detectors.hang.suspects import Blame, Member, Reach, blame
from detectors.kit.block_clock import StepClock
from detectors.kit.columns import Columns, rows_where
from detectors.kit.elapsed import Elapsed
from detectors.kit.findings import FindingTracker, Verdict
from detectors.kit.jobs import in_job
from detectors.kit.literature import LLAMA
from detectors.kit.page import Page, Shown
from detectors.kit.stateful import Stateful
from pipeline.clock import SECOND_NS, Instant
from pipeline.finding import Finding
from pipeline.frame import Device, Frame
from pipeline.observation import Event, Observation
from pipeline.xid.table import xid_entry

MIN_MEMBERS = 2  # a job of one has no peers
MAX_UNREAD = 0.1  # of the members: a job with more unread members is not judged
BREAK_S = 15.0  # a stir shorter than this is no end of a pause
BACK_S = 30.0  # of work after which a stall is over
OVER_S = 60.0  # without any process a job has ended, whatever the scheduler reports
# A hardware error shows up to so long before the job stops (the driver
# retries), or while it is stalled.
XID_BEFORE_NS = 120 * SECOND_NS
SERIOUS = "page"
LINKS = ("link_down", "hca_health")
NAMES = {
    BUSY: "work",
    MOVING: "move data over PCIe",
    SPINS: "wait in a kernel",
    IDLE: "are idle",
    FREE: "have no process",
    LOST: "are lost",
}


PAGE = Page(
    formula=(
        "all members quiet for longer than max(180 s, the job's own pauses) while some wait at "
        "full utilisation; root cause: dead rank, rank with an error, the few that are idle, the "
        "last to stop"
    ),
    sources=(LLAMA, "NVIDIA, NCCL documentation: NCCL_TIMEOUT and the RAS subsystem"),
    shows=(
        Shown("gpu", "gpu_utilization_percent"),
        Shown("gpu", "power_milliwatts"),
        Shown("ib_port", "transmit_words"),
    ),
    next_step=(
        "Ask the job's ranks (tocsin nccl status); end the job, and drain the node of the root "
        "cause before it starts again."
    ),
    clears=(
        "When GPUs of the job have worked for half a minute, when none of them had a process for a "
        "minute, or when the scheduler reports the end of the job."
    ),
    scored_as=("hang",),
)


class Hang(Stateful):
    """Finds from GPU readings alone which jobs are stalled, and which of their
    GPUs the others wait for.

    A page after three minutes of silence when some wait and one does not (a minute when its process
    is gone or its driver reported a serious error), after seven when all are idle; later for jobs
    that are young or are known for longer pauses. On one node of several a stall whose culprit is
    not here is an info finding; where no source reports jobs it is a ticket. It ends when the job
    works again or is over.

    >>> Hang().name
    'hang'
    """

    name = "hang"
    version = 2

    def __init__(self) -> None:
        self._columns = Columns(
            **Activity.fills(), **Members.fills(), worked_ns=0, xid_ns=0, xid=0, link_ns=0
        )
        self._activity, self._members = Activity(self._columns), Members(self._columns)
        self._clock, self._elapsed = StepClock(), Elapsed()
        self._standing, self._told = FindingTracker(self.name), StallsByJob()

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
            yield from self._jobs(np.where(columns["joined"], does, -1), step_s, at)
        yield from self._standing.due(at)

    def _jobs(self, does: NDArray[np.int64], step_s: float, at: Instant) -> Iterator[Finding]:
        """Move every job's clocks on, and tell what they say.

        ``does`` is -1 for who never worked for the job.
        """
        members, of = self._members, self._members.of
        n, works, moves, waits, idle, unread = (
            members.count(rows)
            for rows in (
                does >= 0,
                does == BUSY,
                does == MOVING,
                does == SPINS,
                does == IDLE,
                does == UNKNOWN,
            )
        )
        out = members.count((does == FREE) | (does == LOST))
        silent = (
            (n >= MIN_MEMBERS)
            & (works + moves == 0)
            & (unread <= MAX_UNREAD * n)
            & (waits + idle > 0)
        )
        of["worked_s"] += step_s * ((works > 0) & (2 * works >= n))
        of["back_s"] = np.where(works > 0, of["back_s"] + step_s, 0.0)
        of["over_s"] = np.where((n > 0) & (out == n), of["over_s"] + step_s, 0.0)
        of["out_s"] = np.where((out > 0) & (out == of["out"]), of["out_s"] + step_s, 0.0)
        of["out"] = out.astype(np.float64)
        self._pauses(silent, np.where(waits > 0, WAITS, STARVES), step_s)

        kind, jobs = of["kind"].astype(np.int64), np.arange(len(n))
        limit = patience(of["longest_s"], of["worked_s"])[kind, jobs]
        # out_s is 0 when so many are first seen to be gone, which may be a step after they left.
        known = (kind == WAITS) & (
            (of["out_s"] >= EVIDENCE_S - step_s) | (self._recent_xids(does, at) > 0)
        )
        limit[known] = EVIDENCE_S
        for job in rows_where(silent & (of["silent_s"] >= limit) & (of["told"] == 0)):
            of["told"][job] = 1.0
            yield from self._stalls(job, does, float(limit[job]), at)
        for job in rows_where((of["told"] > 0) & (of["back_s"] >= BACK_S) & (of["silent_s"] == 0)):
            of["told"][job] = 0.0
            yield from self._end(members.names[job], at, "the job works again")
        for job in rows_where(of["over_s"] >= OVER_S):
            members.forget(job)
            yield from self._end(members.names[job], at, "its processes have left")

    def _pauses(self, silent: NDArray[np.bool_], kind: NDArray[np.int64], step_s: float) -> None:
        """Count the silence of each kind; learn how long a pause was that ended."""
        of = self._members.of
        goes_on = silent & ((kind == of["kind"]) | (of["silent_s"] == 0))
        of["silent_s"] = np.where(goes_on, of["silent_s"] + of["broken_s"] + step_s, of["silent_s"])
        of["broken_s"] = np.where(goes_on | (of["silent_s"] == 0), 0.0, of["broken_s"] + step_s)
        of["kind"] = np.where(goes_on, kind, of["kind"])
        ended = of["broken_s"] >= BREAK_S
        if ended.any():
            mine = ended & (of["kind"] == np.array([[WAITS], [STARVES]]))
            longest, flagged = learnt(
                of["longest_s"], of["flagged_s"], of["silent_s"], of["told"] > 0
            )
            of["longest_s"] = np.where(mine, longest, of["longest_s"])
            of["flagged_s"] = np.where(mine, flagged, of["flagged_s"])
            of["kind"] = np.where(ended, kind, of["kind"])
            of["silent_s"] = np.where(ended, np.where(silent, of["broken_s"], 0.0), of["silent_s"])
            of["broken_s"] = np.where(ended, 0.0, of["broken_s"])

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
        self, job: int, does: NDArray[np.int64], limit_s: float, at: Instant
    ) -> Iterator[Finding]:
        members, columns = self._members, self._columns
        rows, xids, links = (
            members.rows(job).tolist(),
            self._fresh("xid_ns", at),
            self._fresh("link_ns", at),
        )
        who = [
            Member(
                columns.devices[row],
                int(does[row]),
                int(columns["xid"][row]) if xids[row] else 0,
                bool(links[row]),
                (at.mono_ns - int(columns["worked_ns"][row])) / SECOND_NS,
                bool(columns["witnessed"][row]),
            )
            for row in rows
        ]
        name, silent_s = members.names[job], float(members.of["silent_s"][job])
        found = blame(who, Device("", "job", name), self._reach(job, who))
        verdict = _verdict(found, name, who, silent_s, limit_s)
        self._told.add(name, found.culprits, found.fault)
        for device in found.culprits:
            yield from self._standing.holds(
                in_job(device, name), verdict, at, at.time_ns - round(silent_s * SECOND_NS)
            )

    def _reach(self, job: int, who: list[Member]) -> Reach:
        if self._members.guessed[job]:
            return "no job"
        hosts = self._members.hosts(job)
        if hosts is None:
            return "unknown"
        return "here" if hosts <= len({member.gpu.host for member in who}) else "beyond"

    def _end(self, job: str, at: Instant, why: str) -> Iterator[Finding]:
        for device, fault in self._told.pop(job):
            yield from self._standing.ends(device, fault, at, why)


def _verdict(found: Blame, job: str, who: list[Member], silent_s: float, limit_s: float) -> Verdict:
    hosts = len({member.gpu.host for member in who})
    counts = {words: sum(m.does == code for m in who) for code, words in NAMES.items()}
    now = ", ".join(f"{n} {words}" for words, n in counts.items() if n)
    last = min(who, key=lambda m: m.worked_s_ago)
    return Verdict(
        found.fault,
        found.severity,
        found.action,
        _summary(found, job, len(who)),
        (
            f"of {len(who)} GPUs of job {job} seen on {hosts} node{'s' * (hosts > 1)} {now}",
            f"none of them moved data for {silent_s:.0f} s; the limit is {limit_s:.0f} s",
            (
                f"the last to work was GPU {last.gpu.attributes.get('index', last.gpu.id)} of "
                f"{last.gpu.host}, {last.worked_s_ago:.0f} s ago"
            ),
            f"confidence {found.confidence:.1f}, from telemetry alone",
        ),
        silent_s,
        0.0,
        "seconds",
    )


def _summary(found: Blame, job: str, gpus: int) -> str:
    first = found.culprits[0]
    if first.kind == "job":
        return f"Job {job} is stalled. {found.words}."
    if found.fault in ("hang/waits", "hang/host_stall", "hang/undecided"):
        return f"Job {job} is stalled on node {first.host}. {found.words}."
    return f"Job {job} is stalled: {gpus} GPUs wait for this {first.kind}, which {found.words}."
