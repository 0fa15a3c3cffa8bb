"""Slurm's jobs and the GPUs they have: by the processes that hold a GPU, and by what slurmstepd
gave the tasks it launched.
"""

from __future__ import annotations

import pwd
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from collector.node.gpu_processes import NO_INSTANCE, ProcessesByGpu
from collector.sources.jobs.allocation import Allocation
from collector.sources.jobs.gpus import Gpus
from collector.sources.jobs.slurm.look import TaskLook
from collector.sources.jobs.slurm.tasks import Task, user_names
from collector.sources.nccl.discovery.environment import number_of
from collector.sources.tenants.desk import Desk, LookLostError
from collector.sources.tenants.job_users import JobUsers

MAX_GPUS = 64
_INDICES = re.compile(r"[0-9]{1,3}(?:-[0-9]{1,3})?(?:,[0-9]{1,3}(?:-[0-9]{1,3})?)*")
# Facts of the catalogue and the variables that have them.
_FACTS = {
    "account": "SLURM_JOB_ACCOUNT",
    "partition": "SLURM_JOB_PARTITION",
    "job_name": "SLURM_JOB_NAME",
    "array_job": "SLURM_ARRAY_JOB_ID",
    "array_task": "SLURM_ARRAY_TASK_ID",
}


class Slurm:
    """Jobs of this node below ``proc``.

    ``user_name`` gives the name of a user id, "" where it has none; ``users`` learns whose jobs
    there are.
    """

    def __init__(
        self,
        proc: Path,
        user_name: Callable[[int], str],
        desk: Desk | None = None,
        users: JobUsers | None = None,
    ) -> None:
        self._tasks, self._users = TaskLook(proc, desk), users or JobUsers()
        self._user_name = user_names(user_name)
        self._owners: dict[str, int] = {}
        self.unattributed = self.hidden = 0

    def holdings(self, gpus: Gpus, processes: ProcessesByGpu, now_s: float) -> Iterator[Allocation]:
        """Which job has which GPU.

        ``unattributed`` counts processes that use a GPU and belong to no job, ``hidden`` those
        that /proc does not show.

        OSError where /proc cannot be listed.
        """
        with suppress(LookLostError):  # those of the last look are known
            self._tasks.look(now_s)
        self._owners = {
            task.job: task.user
            for task in self._tasks.all()
            if task.launched and task.step != "extern"
        }
        self._users.learn({(task.job, task.user) for task in self._tasks.all()}, now_s, sure=True)
        self._users.learn_arrays(_arrays(self._tasks.all()), now_s)
        self.unattributed = self.hidden = 0
        for uuid, holders in processes.holders.items():
            for pid, instance in holders:
                task = self._tasks.of(pid)
                if task is not None:
                    inside = "" if instance == NO_INSTANCE else str(instance)
                    yield Allocation(
                        uuid,
                        inside,
                        "slurm",
                        "process",
                        self._facts(task),
                        frozenset((pid,)),
                        _hosts(task),
                        self._owner(task),
                    )
                elif self._tasks.there(pid):
                    self.unattributed += 1
                else:
                    self.hidden += 1
        for task in self._tasks.all():
            if task.launched:
                yield from self._given(task, gpus)

    def close(self) -> None:
        """End the child that reads tasks."""
        self._tasks.close()

    def _given(self, task: Task, gpus: Gpus) -> Iterator[Allocation]:
        """GPUs of the job by the variables of a task: SLURM_JOB_GPUS and SLURM_STEP_GPUS are
        numbers of the node, CUDA_VISIBLE_DEVICES is not.
        """
        variables = task.environment
        numbers = indices(
            variables.get("SLURM_STEP_GPUS", "") or variables.get("SLURM_JOB_GPUS", "")
        )
        for uuid in dict.fromkeys(gpus.listed(str(n)) for n in numbers):
            if uuid:
                yield Allocation(
                    uuid,
                    "",
                    "slurm",
                    "environment",
                    self._facts(task),
                    hosts=_hosts(task),
                    owner=self._owner(task),
                )

    def _owner(self, task: Task) -> int:
        return self._owners.get(task.job, task.user)

    def _facts(self, task: Task) -> dict[str, str]:
        """``user`` is the user that Slurm started the job for, whatever user a process in it has
        since become by sudo, or in a container: by the name that this machine has for the number,
        else the number. What the job calls its user names no owner: alerts go there.
        """
        variables, owner = task.environment, self._owner(task)
        user = self._user_name(owner) or (str(owner) if owner >= 0 else "")
        step = "" if task.step == "extern" else task.step
        return {"job": task.job, "step": step, "user": user} | {
            fact: variables.get(name, "") for fact, name in _FACTS.items()
        }


def _arrays(tasks: Iterable[Task]) -> Iterator[tuple[str, str, int]]:
    """Tasks of arrays, by id, as ``squeue`` calls them, and by user."""
    for task in tasks:
        numbers = [task.environment.get(f"SLURM_ARRAY_{which}_ID", "") for which in ("JOB", "TASK")]
        if all(number.isascii() and number.isdecimal() for number in numbers):
            yield task.job, "_".join(numbers), task.user


def _hosts(task: Task) -> int:
    """Nodes of its job as Slurm counts them, 0 where that is unknown; one component of a
    heterogeneous job is not all of it.
    """
    return (
        0
        if "SLURM_HET_SIZE" in task.environment
        else max(0, number_of(task.environment, "SLURM_JOB_NUM_NODES"))
    )


def indices(text: str) -> tuple[int, ...]:
    """Numbers of GPUs as Slurm lists them; none where the text is anything else.

    >>> indices("0,2-4"), indices("0-9999"), indices("all")
    ((0, 2, 3, 4), (), ())
    """
    if len(text) > 256 or not _INDICES.fullmatch(text):
        return ()
    ends = [part.partition("-") for part in text.split(",")]
    spans = [range(int(first), int(last or first) + 1) for first, _, last in ends]
    return tuple(n for span in spans for n in span)[:MAX_GPUS]


def local_user(user: int) -> str:
    """Name of a user id as this machine, or its directory service, has it; "" where it has none."""
    try:
        return pwd.getpwuid(user).pw_name
    except (KeyError, OverflowError):
        return ""


def nameless(_user: int) -> str:
    """Of users of another machine only the number is known."""
    return ""
