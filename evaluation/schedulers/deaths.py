"""Ways in which jobs end, as each scheduler reports them; a node's kernel reports alike to both."""

from __future__ import annotations

from typing import NamedTuple


class Death(NamedTuple):
    """``log`` are lines of torchrun in the job's log, ``slurm`` those that only slurmstepd writes,
    with ``{job}``, ``{host}`` and ``{pid}``; ``code`` and ``status`` are the exit code of the first
    pod's container and what its pod has beside it. ``cause`` is that of the page. ``kernel``:
    memory of the job's group ran out.
    """

    cause: str
    code: int
    log: tuple[str, ...] = ()
    slurm: tuple[str, ...] = ()
    reason: str = "Error"
    status: tuple[tuple[str, str], ...] = ()
    deleted: bool = False
    kernel: bool = False


CANCEL = "slurmstepd: error: *** JOB {job} ON {host} CANCELLED AT 2026-03-02T08:00:00{why} ***"
FAILED = "failed (exitcode: {code}) local_rank: 0 (pid: {pid}) of binary: /usr/bin/python3"


def _slurm(why: str) -> tuple[str, ...]:
    return (CANCEL.replace("{why}", why),)


def _failed(code: int) -> tuple[str, ...]:
    return (FAILED.replace("{code}", str(code)),)


DEATHS = {
    "time_limit": Death(
        "time_limit",
        137,
        slurm=_slurm(" DUE TO TIME LIMIT"),
        status=(("reason", "DeadlineExceeded"),),
    ),
    "cancelled": Death("cancelled", 143, slurm=_slurm(""), deleted=True),
    "preempted": Death(
        "preempted",
        143,
        slurm=_slurm(" DUE TO PREEMPTION"),
        status=(("disruption", "PreemptionByScheduler"),),
        deleted=True,
    ),
    "segfault": Death("signal", 1, log=_failed(-11)),
    "aborted": Death("signal", 1, log=_failed(-6)),
    "exit": Death("exit", 1, log=_failed(1)),
    "memory": Death("host_memory", 137, log=_failed(-9), reason="OOMKilled", kernel=True),
}
VICTIM = Death("cancelled", 143, deleted=True)  # the other pods, which their controller ends
# Of jobs that nothing in the scenario ended. A clean end is in no source of Slurm on the node: its
# page says "no error", that of Kubernetes "completed".
WAYS = ("time_limit", "segfault", "cancelled", "memory", "preempted", "exit")
KILLED = "aborted"  # by a fault of the scenario
