"""Whose process it is: what the kernel says of it, and what it says of itself within that."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from collector.sources.control_group import group_of, pod_in
from collector.sources.nccl.discovery import procfs
from collector.sources.nccl.discovery.environment import job_of
from pipeline.job_names import base


class Owner(NamedTuple):
    """A job: the control group that the kernel keeps it in, its user, and its name.

    ``group`` is a pod or a job of Slurm, empty where it is neither. ``sure``: the name is the
    control group's, not a claim.
    """

    group: str
    user: int
    name: str
    sure: bool = False

    @property
    def tenant(self) -> str:
        """Whose share it uses: a pod's (pods share user ids), else a user's."""
        return self.group if self.group.startswith("pod") else f"user{self.user}"

    @property
    def base(self) -> str:
        """The job without its step: 71 of 71.0."""
        return base(self.name)


def owner_of(environment: Mapping[str, str], cgroup: str, user: int) -> Owner:
    """The job of a process. A claim to another job than the control group's does not count: what
    runs in a pod is of that pod, unless a slurmstepd started it there.

    >>> owner_of({"SLURM_JOB_ID": "72"}, "0::/system.slice/slurmstepd.scope/job_71/step_0/user", 7)
    Owner(group='job 71', user=7, name='71.0', sure=True)
    >>> owner_of({"SLURM_JOB_ID": "72"}, "0::/user.slice", 7)
    Owner(group='', user=7, name='72', sure=False)
    """
    pod = pod_in(cgroup)
    group = f"pod{pod}" if pod else ""
    found = group_of(cgroup)
    if found is not None and found.job:
        ours = environment.get("SLURM_JOB_ID") == found.job
        step = environment.get("SLURM_STEP_ID", "") if ours else found.step
        name = f"{found.job}.{step}" if step else found.job
        # slurmstepd inside a pod may be anybody's: then it is a job of that pod.
        return Owner(group or f"job {found.job}", user, name, sure=not group)
    if group and found is None:
        return Owner(group, user, group, sure=True)
    return Owner(group, user, job_of(environment, cgroup))


def tenant_of(process: Path) -> str:
    """Whose share a process uses, by its /proc/PID: the kernel's word; "" where it ended."""
    try:
        user = process.stat().st_uid
        cgroup = procfs.read(process / "cgroup").decode(errors="replace")
    except OSError:
        return ""
    return owner_of({}, cgroup, user).tenant
