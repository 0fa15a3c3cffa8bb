"""Slurm's jobs in control groups: every shape of path, and paths that only look like one."""

from __future__ import annotations

import pytest

from collector.sources.control_group import Group, folder_of, group_of, pod_in

SLUID = "s0123456789ABC"


@pytest.mark.parametrize(
    ("cgroup", "group"),
    [
        ("0::/system.slice/slurmstepd.scope/job_71/step_0/user/task_0", Group("71", "", "0")),
        ("0::/system.slice/slurmstepd.scope/job_71/step_batch/slurm", Group("71", "", "batch")),
        (
            "0::/system.slice/slurmstepd.scope/job_71/step_extern/user/task_special",
            Group("71", "", "extern"),
        ),
        ("0::/system.slice/gpu01_slurmstepd.scope/job_71", Group("71", "", "")),
        (f"0::/system.slice/slurmstepd.scope/{SLUID}/step_0/user/task_0", Group("", SLUID, "0")),
        (
            "11:devices:/slurm/uid_1000/job_71/step_0/task_0\n10:memory:/slurm/uid_1000/job_71",
            Group("71", "", "0"),
        ),
        ("4:freezer:/slurm_gpu01/uid_0/job_9/step_4294967292", Group("9", "", "4294967292")),
        (f"4:freezer:/slurm/uid_0/{SLUID}/step_1", Group("", SLUID, "1")),
        ("0::/../../system.slice/slurmstepd.scope/job_71/step_0", Group("71", "", "0")),
        (
            "0::/kubepods.slice/pod1/cri-containerd-1.scope/system.slice/slurmstepd.scope/job_71/step_0",
            Group("71", "", "0"),
        ),
    ],
)
def test_every_shape_of_path(cgroup: str, group: Group) -> None:
    """Version 1 and 2, 26.05's SLUIDs, several slurmds on a host, seen from inside another
    namespace, Slurm in pods.
    """
    assert group_of(cgroup) == group


def test_a_container_in_a_job_is_the_job_s() -> None:
    """Groups that a job makes below its own, whatever their names, leave it the job it is."""
    nested = (
        "0::/system.slice/slurmstepd.scope/job_71/step_0/user/task_0/slurmstepd.scope/job_99/step_1"
    )
    assert group_of(nested) == Group("71", "", "0")


@pytest.mark.parametrize(
    "cgroup",
    [
        "",
        "0::/",
        "0::/system.slice/slurmd.service",
        "0::/user.slice/user-1000.slice/user@1000.service/app.slice/slurmstepd.scope/job_99/step_0",
        "0::/../user.slice/user-1000.slice/slurmstepd.scope/job_99/step_0",
        "1:name=systemd:/user.slice/slurm/uid_0/job_99/step_0",
        "0::/system.slice/slurmstepd.scope/job_99x/step_0",
        f"0::/system.slice/slurmstepd.scope/{SLUID}I",
        "0::/system.slice/slurmstepd.scope/s0123456789ABI/step_0",
        "0::/system.slice/slurmstepd.scope/system",
    ],
)
def test_what_only_looks_like_a_job_is_none(cgroup: str) -> None:
    """A user may name groups as he likes in the slice of his session;
    slurmstepd never works there.
    """
    assert group_of(cgroup) is None


UID = "0a1b2c3d-0000-1111-2222-333344445555"
SYSTEMD_UID = UID.replace("-", "_")


@pytest.mark.parametrize(
    "path",
    [
        f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SYSTEMD_UID}.slice/x",
        f"/kubepods/pod{UID}/x",
        f"/../../kubepods-burstable-pod{SYSTEMD_UID}.slice/cri-containerd-1.scope",
        f"/../../../kubepods-besteffort.slice/kubepods-besteffort-pod{SYSTEMD_UID}.slice/x",
        f"/../../../kubepods-pod{SYSTEMD_UID}.slice/crio-1.scope",
        f"/../../pod{UID}/1",
        f"/../../../burstable/pod{UID}/1",
        f"/../../../../kubepods.slice/kubepods-pod{SYSTEMD_UID}.slice/x",
    ],
)
def test_a_pod_is_known_from_the_host_and_from_another_pod(path: str) -> None:
    """A reader with a control-group namespace of its own sees paths relative to its own pod's."""
    assert pod_in(f"0::{path}") == UID


@pytest.mark.parametrize(
    "path",
    [
        f"/user.slice/user-1000.slice/pod{UID}/x",
        f"/../user.slice/pod{UID}/x",
        f"/../../system.slice/docker-1.scope/kubepods/pod{UID}",
        f"/pod{UID}/x",
        f"/burstable/pod{UID}/x",
        "/../cri-containerd-1.scope",
    ],
)
def test_what_only_looks_like_a_pod_is_none(path: str) -> None:
    """Names below a tenant's own group are the tenant's."""
    assert pod_in(f"0::{path}") == ""


def test_a_folder_that_is_not_seen_from_the_root_is_none() -> None:
    """A path relative to the reader's own group names no folder below /sys/fs/cgroup."""
    assert folder_of(f"0::/../../pod{UID}/1") == ""
