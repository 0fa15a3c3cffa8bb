"""Slurm's job, or the pod, in the control group of a process: kept by the kernel, so that no job
can change it.

A path counts only where slurmstepd puts it: the owner of a job may make groups of any name further
down, or in the slice of the session. Paths: cgroup_v2.html and CHANGELOG of Slurm (s<SLUID> in
place of job_<id> since 26.05, unless CgroupJobIdPaths=yes), cgroups.html for v1.
"""

from __future__ import annotations

import re
from typing import NamedTuple

SLUID = "s[0-9A-HJKMNP-TV-Z]{13}"  # Crockford's base 32 after an s

_STEP = r"(?:/step_(?P<step>[\w.+]{1,32}))?(?:/|$)"
# Several slurmds on one host have their names in front: gpu01_slurmstepd.scope, slurm_gpu01.
_V2 = re.compile(
    (
        r"^0::(?!(?:/\.\.)*/user\.slice/)(?:/[^/\n]+)*?/(?:[\w.-]+_)?slurmstepd\.scope/"
        rf"(?:job_(?P<job>\d{{1,12}})|(?P<sluid>{SLUID})){_STEP}"
    ),
    re.MULTILINE,
)
_V1 = re.compile(
    (
        r"^\d+:[^:\n]*:(?:/\.\.)*/slurm(?:_[\w.-]+)?/uid_\d{1,10}/(?:job_(?P<job>\d{1,12})|"
        rf"(?P<sluid>{SLUID})){_STEP}"
    ),
    re.MULTILINE,
)
# Pods of the kubelet (cgroup drivers systemd and cgroupfs) at the root of the hierarchy; further
# down the names are the tenant's. A reader that is in a pod itself, in a control-group namespace of
# its own (the default of cgroup v2), is not shown the folders that both have in common
# (cgroup_namespaces(7)): "/../../kubepods-burstable-pod<uid>.slice/...".
_POD = re.compile(
    r"^\d+:[^:\n]*:(?:(?:/\.\.)*/kubepods(?:\.slice)?/(?:[^/\n]{1,64}/)?|"
    r"(?:/\.\.)+/(?:[a-z-]{0,32}(?:burstable|besteffort)(?:\.slice)?/)?)(?:[a-z-]{1,32})?"
    r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})(?:\.slice)?(?:/|$)",
    re.MULTILINE,
)


class Group(NamedTuple):
    """A job by its id or, where the path has only that, by its SLUID; the other is empty.

    ``step`` is empty for the complete job.
    """

    job: str
    sluid: str
    step: str


def group_of(cgroup: str) -> Group | None:
    """The job in a /proc/PID/cgroup; None where it is not Slurm's.

    >>> group_of("0::/system.slice/slurmstepd.scope/job_71/step_0/user/task_0")
    Group(job='71', sluid='', step='0')
    >>> group_of("0::/system.slice/sshd.service") is None
    True
    """
    match = _V2.search(cgroup) or _V1.search(cgroup)
    return Group(match["job"] or "", match["sluid"] or "", match["step"] or "") if match else None


def folder_of(cgroup: str) -> str:
    """The control group (v2) of the complete job or pod in a /proc/PID/cgroup, below the root; ""
    where it is in none, or its path is not seen from the root.

    >>> folder_of("0::/system.slice/slurmstepd.scope/job_71/step_0/user/task_0")
    'system.slice/slurmstepd.scope/job_71'
    """
    for pattern in (_V2, _POD):
        match = pattern.search(cgroup)
        if match and match[0].startswith("0::/"):
            path = match[0].removeprefix("0::/").removesuffix("/").partition("/step_")[0]
            return "" if ".." in path.split("/") else path
    return ""


def pod_in(cgroup: str) -> str:
    """The UID of the pod in a /proc/PID/cgroup; "" where it is no pod's.

    >>> pod_in("0::/kubepods/burstable/pod1b9f7c1e-0000-4000-8000-00000000000a/x")
    '1b9f7c1e-0000-4000-8000-00000000000a'
    """
    match = _POD.search(cgroup)
    return match[1].replace("_", "-") if match else ""
