"""Whose memory ran out: the cgroups that the kernel prints before it kills (mm/oom_kill.c,
mm/memcontrol.c), and the job they belong to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from collector.node.trainings import POD, Trainings
from collector.sources.control_group import group_of, pod_in
from pipeline.observation import Value

OF_A_GROUP = ("oom_kill", "resource_exhausted")  # events that may name a control group
_OOM = re.compile(
    r"oom-kill:constraint=[^,]{1,40},.{0,400}?(?:oom_memcg=(?P<limit>[^,]{1,400}),|,global_oom,)"
    r".{0,200}?task_memcg=(?P<task>[^,]{1,400}),.{0,200}?,pid=(?P<pid>\d{1,10}),",
    re.DOTALL,
)
# kernels before 4.19
_TASK = re.compile(r"Task in (/[^\n\[]{0,400}) killed as a result of limit of ([^\n]{1,400})")


def memory_of(text: str) -> tuple[str, str, str] | None:
    """Process id, cgroup whose limit was reached ("" where the machine's memory ran out), and the
    cgroup of the process.
    """
    match = _OOM.match(text)
    return (match["pid"], match["limit"] or "", match["task"]) if match else None


def task_of(text: str) -> tuple[str, str] | None:
    """Cgroup whose limit was reached, and that of the process, as older kernels print them."""
    match = _TASK.match(text)
    return (match[2], match[1]) if match else None


def about_victim(limit: str, task: str) -> dict[str, Value]:
    """Attributes of the kill: a Slurm job is named in the path of its cgroup, where only slurmstepd
    can have put it.

    >>> about_victim("", "/slurm/uid_7/job_42/step_0")
    {'task_cgroup': '/slurm/uid_7/job_42/step_0', 'job': '42'}
    """
    facts: dict[str, Value] = {"cgroup": limit} if limit else {}
    facts["task_cgroup"] = task
    if (group := group_of(f"0::{task}")) and group.job:
        facts["job"] = group.job
    return facts


def of_training(facts: Mapping[str, Value], trainings: Trainings) -> dict[str, Value]:
    """The attributes of an event about a pod whose training is known name it, as they name Slurm's
    job: of a kill, or of a limit that was reached.
    """
    task = facts.get("task_cgroup", facts.get("cgroup"))
    if not isinstance(task, str) or "job" in facts:
        return {}
    training = trainings.of_group(f"{POD}{pod_in(f'0::{task}')}")
    return {"job": training.id} if training else {}
