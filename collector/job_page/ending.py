"""Who or what ended a run: the first cause among the clues of its end, and what to do before it is
started again.

A fault of hardware or host comes first if the job made no step after it; then what the scheduler
states; then a stall; then the first process that ended by itself. Processes that a scheduler or a
launcher ended are victims.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from collector.job_page.evidence import Clue, Sort
from collector.job_page.phases import MAX_PAUSE, MINUTE_NS, Phase
from detectors.faults import fault_class, fault_of
from pipeline.gpu_parts import OF_GPU
from pipeline.store.query.job_runs import JobRun

Row = Mapping[str, Any]
SURVIVED_NS = 2 * MINUTE_NS  # of steps after a fault: then it was not the end
STALL_DETECTORS = ("nccl", "hang")

# What each cause is called, and what to do before the next start.
CAUSES: dict[str, tuple[str, str]] = {
    "running": ("It is still running.", ""),
    "node_lost": (
        "The node went away",
        (
            "Leave the node out until it is checked: tocsin explain shows its incident, and its "
            "kernel log of the previous boot."
        ),
    ),
    "gpu_fault": (
        "A GPU failed",
        (
            "Drain the node and follow the incident's action; start again without it. The program "
            "is not at fault."
        ),
    ),
    "program_fault": (
        "The program made an invalid access on the GPU",
        (
            "Repair the program: run it with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer. The "
            "node is good; the same error on other nodes confirms that."
        ),
    ),
    "gpu_memory": (
        "A rank ran out of GPU memory",
        (
            "Lower the batch size or sequence length, or shard more. Another job on the GPU would "
            "be an incident."
        ),
    ),
    "host_memory": (
        "The kernel killed a process because the host's memory, or the job's share, ran out",
        (
            "Ask for more memory (--mem, limits.memory), or lower the workers and prefetching of "
            "the data loader."
        ),
    ),
    "time_limit": (
        "The scheduler ended it at its time limit",
        (
            "Ask for more time (--time, activeDeadlineSeconds), and save a checkpoint before the "
            "limit: Slurm signals with --signal=B:USR1@300, Kubernetes sends SIGTERM and waits for "
            "terminationGracePeriodSeconds."
        ),
    ),
    "preempted": (
        "The scheduler preempted it",
        "Start again; save a checkpoint when SIGTERM arrives, within the grace time of its queue.",
    ),
    "node_failed": (
        "The scheduler lost one of its nodes",
        "Leave that node out until it is checked.",
    ),
    "cancelled": ("It was cancelled", "Nothing, if that was intended."),
    "stall": (
        "It stalled",
        (
            "Before it is started again, find what the named rank waited for: py-spy dump, data "
            "loader, file system, network. tocsin nccl explain reads its dumps."
        ),
    ),
    "signal": (
        "A process was ended by a signal",
        "Read the core dump or the last lines of that rank's log.",
    ),
    "exit": (
        "A process ended with an error",
        "Read the last lines of that rank's log: the first error counts, not those of the others.",
    ),
    "completed": ("It completed", ""),
    "unknown": (
        "It ended, and the store has no error of it",
        (
            "Nothing, where its scheduler has it as completed (sacct -j, kubectl get). Else read "
            "its log; sources.joblog.paths lets the agent read it too."
        ),
    ),
}
_FIRST: tuple[Sort, ...] = ("gpu_fault", "host_memory", "crash")
_STATED: tuple[Sort, ...] = ("time_limit", "preempted", "node_failed")
_BY_ITSELF: tuple[Sort, ...] = ("gpu_memory", "program_fault", "signal", "exit")
NEVER_NS = 1 << 63
_WATCHDOGS = {signal.SIGABRT, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT}
_OWN: tuple[Sort, ...] = (*_BY_ITSELF, "cancelled")


class Ending(NamedTuple):
    """``cause`` is a key of CAUSES; ``who`` the rank, GPU, node or scheduler; ``also`` what was
    true at the end as well, such as a stall before a time limit.
    """

    cause: str
    who: str = ""
    detail: str = ""
    time_ns: int = 0
    also: str = ""

    @property
    def sentence(self) -> str:
        """Cause, who and detail."""
        words = CAUSES[self.cause][0].rstrip(".")
        who = f": {self.who}" if self.who else ""
        detail = f" ({self.detail})" if self.detail else ""
        return f"{words}{who}{detail}.{f' {self.also}' if self.also else ''}"

    @property
    def next_step(self) -> str:
        """What to do before it is started again."""
        return CAUSES[self.cause][1]

    @property
    def by_fault(self) -> bool:
        """Whether its work since the last save is lost."""
        return self.cause not in ("running", "completed", "unknown", "cancelled")


def ending(
    run: JobRun,
    clues: Sequence[Clue],
    phases: Sequence[Phase],
    findings: Sequence[Row],
    incidents: Sequence[Row],
) -> Ending:
    """The first cause that fits."""
    if run.running:
        return Ending("running")
    stalled = phases[-1] if phases and phases[-1].kind == "stall" else None
    fatal = [clue for clue in clues if not survived(clue, phases)]
    for found in (
        _of(fatal, _FIRST),
        _lost_gpu(run, incidents, phases),
        _lost_node(run),
        _stated(clues, stalled, findings),
        _in_a_pause(fatal, stalled, findings),
        _stall(clues, stalled, findings, fatal),
        _of(fatal, _OWN),
    ):
        if found is not None:
            return found
    outcomes = {span.outcome for span in run.spans}
    finished = outcomes == {"completed"} or any(clue.sort == "finished" for clue in clues)
    return Ending("completed" if finished else "unknown", time_ns=run.end_ns)


def _of(clues: Sequence[Clue], sorts: Sequence[Sort]) -> Ending | None:
    """By the first clue of some sorts."""
    clue = next((one for one in clues if one.sort in sorts), None)
    if clue is None:
        return None
    cause = "node_lost" if clue.sort == "crash" else clue.sort
    rank = f"rank {clue.rank}, " if clue.rank >= 0 and "rank" not in clue.who else ""
    on = f" on {clue.host}" if clue.host not in clue.who else ""
    return Ending(cause, f"{rank}{clue.who}{on}", _detail(clue), clue.time_ns)


def _detail(clue: Clue) -> str:
    if clue.sort == "signal" and clue.number:
        try:
            return signal.Signals(clue.number).name
        except ValueError:
            return f"signal {clue.number}"
    return f"exit code {clue.number}" if clue.sort == "exit" else clue.text[:160]


def survived(clue: Clue, phases: Sequence[Phase]) -> bool:
    """Whether the job made steps after it."""
    steps = sum(
        max(0, one.end_ns - max(one.begin_ns, clue.time_ns))
        for one in phases
        if one.kind == "steps"
    )
    return steps > SURVIVED_NS


def _lost_gpu(run: JobRun, incidents: Sequence[Row], phases: Sequence[Phase]) -> Ending | None:
    """An incident that pages for hardware about one of its GPUs, after which it made no step: a
    rank that stalls or a slow GPU is reported as a page about a GPU too, and no GPU has failed.
    """
    for row in incidents:
        if fault_of(row["fault"]).origin != "hardware" or fault_class(row["fault"]) == "straggler":
            continue
        at = round(row["opened"].timestamp() * 1e9)
        clue = Clue("gpu_fault", at, str(row["host"]), f"GPU {row['device']}", str(row["summary"]))
        of_gpu = row["device_kind"] in OF_GPU
        if of_gpu and row["severity"] == "page" and not survived(clue, phases) and at <= run.end_ns:
            return _of([clue], _FIRST)
    return None


def _lost_node(run: JobRun) -> Ending | None:
    lost = next((span for span in run.spans if span.lost), None)
    return Ending("node_lost", f"node {lost.host}", "", lost.end_ns) if lost else None


def _stated(clues: Sequence[Clue], stalled: Phase | None, findings: Sequence[Row]) -> Ending | None:
    found = _of(clues, _STATED)
    if found is None or stalled is None:
        return found
    why = f": {findings[-1]['summary']}" if findings else "."
    return found._replace(also=f"{_no_step(stalled)}{why}")


def _no_step(stalled: Phase) -> str:
    return f"It had made no step for {(stalled.end_ns - stalled.begin_ns) // MINUTE_NS} min"


def _in_a_pause(
    fatal: Sequence[Clue], stalled: Phase | None, findings: Sequence[Row]
) -> Ending | None:
    """A process that ended by itself while the job was still no longer than a save or an evaluation
    may, and nobody had found that it stalls: it failed in there, on a full disk for example. What
    is found when it ends is found because of it. After a signal by which watchdogs end what stalls
    it is a stall.
    """
    if stalled is None or stalled.end_ns - stalled.begin_ns > MAX_PAUSE * MINUTE_NS:
        return None
    found = _of(fatal, _BY_ITSELF)
    watched = any(
        one.sort == "watchdog" or (one.sort == "signal" and one.number in _WATCHDOGS)
        for one in fatal
    )
    if found is None or watched:
        return None
    since_ns = found.time_ns - MINUTE_NS
    if any(row["onset"].timestamp() * 1e9 < since_ns for row in findings):
        return None
    return found._replace(also=f"{_no_step(stalled)}.")


def _stall(
    clues: Sequence[Clue], stalled: Phase | None, findings: Sequence[Row], fatal: Sequence[Clue]
) -> Ending | None:
    """A stall before the end, unless a process ended before it began."""
    watchdog = next((clue for clue in clues if clue.sort == "watchdog"), None)
    if stalled is None and watchdog is None:
        return None
    begin_ns = stalled.begin_ns if stalled else watchdog.time_ns if watchdog else 0
    if any(clue.sort in _OWN and clue.time_ns <= begin_ns + MINUTE_NS for clue in fatal):
        return None
    row = findings[-1] if findings else None
    detail = str(row["summary"]) if row else watchdog.text[:160] if watchdog else "no report of why"
    # Once a process ended, its controller or launcher ends the others: nobody cancelled the job.
    own_ns = min((clue.time_ns for clue in clues if clue.sort in _BY_ITSELF), default=NEVER_NS)
    cancelled = any(clue.sort == "cancelled" and clue.time_ns < own_ns for clue in clues)
    also = "Then it was cancelled." if cancelled else ""
    return Ending("stall", "", detail.rstrip("."), begin_ns, also)
