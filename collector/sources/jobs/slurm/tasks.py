"""Which processes of the node belong to which job of Slurm, from /proc alone: new ones
are looked at as they come.

A job is known by the control group of its processes; where Slurm has none (proctrack/linuxproc,
pgid), by the title of the slurmstepd of root that they descend from. The environment
of a job only adds to that.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from collector.sources.control_group import Group, group_of
from collector.sources.nccl.discovery import procfs
from collector.sources.nccl.discovery.environment import environment_of
from collector.sources.tenants.desk import Mark

MAX_PROCESSES = 100_000
# how long a new process is looked at again: it is moved into its group, and given its
# environment, after it was forked
SETTLED_S = 3.0
# to 120, not all at once, until one that is none of Slurm's is looked at again: its number
# may be another's by then
AGAIN_S = 60

# Environment variables of a task (man srun, man sbatch: OUTPUT ENVIRONMENT VARIABLES).
KEPT = frozenset(
    (
        *(
            "SLURM_JOB_ID",
            "SLURM_STEP_ID",
            "SLURM_JOB_SLUID",
            "SLURM_JOB_GPUS",
            "SLURM_STEP_GPUS",
        ),
        *(
            "SLURM_JOB_ACCOUNT",
            "SLURM_JOB_PARTITION",
            "SLURM_JOB_NAME",
            "SLURM_ARRAY_JOB_ID",
            "SLURM_ARRAY_TASK_ID",
        ),
        *("SLURM_JOB_NUM_NODES", "SLURM_HET_SIZE"),
    )
)
MAX_USERS = 1000  # whose names are remembered
DAEMON = "slurmstepd"
# Its title: "slurmstepd: [71.batch]", since 24.05 also "slurmstepd: [71.batch stepmgr]".
_TITLE = re.compile(rb"slurmstepd: \[(\d{1,12})\.([\w+]{1,32})(?: stepmgr)?\]")
# Real and effective user: a program with the set-uid bit, under any name, has only the second.
_ROOT = re.compile(rb"^Uid:\s+0\s+0\s", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Task:
    """A process of a job.

    ``launched``: slurmstepd started it, so its environment is what Slurm gave it, not
    what a program made of it.
    """

    pid: int
    job: str
    step: str
    user: int
    launched: bool
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Known:
    """What is remembered of a process.

    ``group`` is its own or its ancestor's; ``daemon``: it is a slurmstepd. ``again_s`` is when its
    environment is asked for again, which was not to be had.
    """

    parent: int = 0
    started: int = -1
    daemon: bool = False
    settled_s: float = 0.0
    again_s: float = math.inf
    group: Group | None = None
    task: Task | None = None


class Tasks:
    """Follows the processes below ``proc``."""

    def __init__(
        self,
        proc: Path,
        mark: Mark = lambda subject, tenant: None,  # noqa: ARG005 - nobody is blamed
    ) -> None:
        self._proc, self._mark = proc, mark
        self._skip: frozenset[int] = frozenset()
        self._resting: frozenset[str] = frozenset()
        self._known: dict[int, _Known] = {}

    def look(self, now_s: float) -> None:
        """Look at what is new, and whether the tasks are still there; ``now_s`` is monotonic.

        OSError where /proc cannot be listed.
        """
        pids = sorted(self._pids())
        for pid in self._known.keys() - set(pids):
            del self._known[pid]
        for pid in pids:
            self._follow(pid, now_s)

    def tasks(
        self, now_s: float, skip: tuple[int, ...], resting: tuple[str, ...]
    ) -> tuple[Task, ...]:
        """``look``, then every task. Processes in ``skip``, and those of the users in ``resting``,
        are not looked at: they stay what they are.
        """
        self._skip, self._resting = frozenset(skip), frozenset(resting)
        self.look(now_s)
        return tuple(self.all())

    def of(self, pid: int) -> Task | None:
        """The task with a pid; None where it is no job's."""
        known = self._known.get(pid)
        return known.task if known else None

    def there(self, pid: int) -> bool:
        """Whether there was such a process in the last look."""
        return pid in self._known

    def all(self) -> Iterator[Task]:
        """Every task."""
        return (known.task for known in self._known.values() if known.task)

    def _pids(self) -> Iterator[int]:
        with os.scandir(self._proc) as entries:
            for _, entry in zip(range(MAX_PROCESSES), entries, strict=False):
                if entry.name.isascii() and entry.name.isdecimal():
                    yield int(entry.name)

    def _follow(self, pid: int, now_s: float) -> None:
        known = self._known.get(pid)
        stranger = known is not None and known.group is None and not known.daemon
        if (
            known is not None
            and stranger
            and known.settled_s < now_s < known.settled_s + AGAIN_S + pid % AGAIN_S
        ):
            return
        task = known.task if known else None
        user = f"user{task.user if task else self._user(pid)}"
        if pid in self._skip or user in self._resting:
            return
        self._mark(str(pid), user)  # its stat, too, may wait for ever
        try:
            stat = procfs.stat(self._read(pid, "stat"))
        except OSError:
            stat = None
        if stat is None:  # it ended between two reads
            self._known.pop(pid, None)
            return
        if known is None or known.started != stat.started or (stranger and now_s > known.settled_s):
            known = self._known[pid] = _Known(
                stat.parent, stat.started, settled_s=now_s + SETTLED_S
            )
        if now_s <= known.settled_s or now_s >= known.again_s:
            self._inspect(pid, known, stat, now_s)

    def _inspect(self, pid: int, known: _Known, stat: procfs.Stat, now_s: float) -> None:
        status = self._bytes(pid, "status")
        group = group_of(self._bytes(pid, "cgroup").decode(errors="replace"))
        if stat.comm == DAEMON and _ROOT.search(status):
            known.daemon, known.group = True, self._titled(pid, group)
            return
        above = self._parent(stat.parent, stat) or self._parent(known.parent, stat)
        known.group = group or (above.group if above else None) or known.group
        if known.group is None:
            return
        raw = self._environ(pid)
        known.again_s = math.inf if raw is not None else now_s + AGAIN_S + pid % AGAIN_S
        if raw is None and known.task is not None:
            return  # what it said before: the helper may restart, or be busy
        variables = environment_of(raw or b"", KEPT)
        job = known.group.job or self._job_of_sluid(known.group.sluid, variables)
        if job:
            ours = variables if variables.get("SLURM_JOB_ID", job) == job else {}
            step = known.group.step or ours.get("SLURM_STEP_ID", "")
            launched = above is not None and above.daemon
            known.task = Task(
                pid, job, step, procfs.user(status), launched=launched, environment=ours
            )

    def _parent(self, pid: int, child: procfs.Stat) -> _Known | None:
        """A process by its number, unless it is younger than its child: then the number was
        another's, which is no more.
        """
        known = self._known.get(pid)
        return known if known is not None and known.started <= child.started else None

    def _job_of_sluid(self, sluid: str, variables: Mapping[str, str]) -> str:
        """The job of a SLUID by the title of its slurmstepd, else by the environment of a task of
        it; "" where neither has it.
        """
        for known in self._known.values():
            if known.daemon and known.group and known.group.sluid == sluid and known.group.job:
                return known.group.job
        job = variables.get("SLURM_JOB_ID", "") if variables.get("SLURM_JOB_SLUID") == sluid else ""
        return job if re.fullmatch("[0-9]{1,12}", job) else ""

    def _titled(self, pid: int, group: Group | None) -> Group | None:
        """The group of a slurmstepd, completed from its title."""
        title = title_of(self._bytes(pid, "cmdline"))
        if title is None:
            return group
        job, step = title
        return group._replace(job=job) if group else Group(job, "", step)

    def _user(self, pid: int) -> int:
        try:
            return (self._proc / str(pid)).stat().st_uid
        except OSError:
            return -1

    def _read(self, pid: int, name: str) -> bytes:
        return procfs.read(self._proc / str(pid) / name)

    def _environ(self, pid: int) -> bytes | None:
        try:
            return procfs.environ(self._proc / str(pid))
        except OSError:
            return None

    def _bytes(self, pid: int, name: str) -> bytes:
        try:
            return self._read(pid, name)
        except OSError:  # not ours to read, or it ended
            return b""


def title_of(cmdline: bytes) -> tuple[str, str] | None:
    """Job and step in the title of a slurmstepd; None where it has none.

    >>> title_of(b"slurmstepd: [71.batch]"), title_of(b"python3")
    (('71', 'batch'), None)
    """
    match = _TITLE.match(cmdline)
    return (match[1].decode(errors="replace"), match[2].decode(errors="replace")) if match else None


def reader(mark: Mark, proc: str) -> Tasks:
    """The reader of a child."""
    return Tasks(Path(proc), mark)


def user_names(name_of: Callable[[int], str]) -> Callable[[int], str]:
    """The same question, each answer remembered: a directory service may be slow."""
    known: dict[int, str] = {}

    def remembered(user: int) -> str:
        if user not in known:
            if len(known) >= MAX_USERS:
                known.clear()
            known[user] = name_of(user)
        return known[user]

    return remembered
