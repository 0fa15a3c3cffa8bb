"""Discovery: which processes use GPUs and NCCL, from a tree like /proc and from /proc itself."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Collection
from pathlib import Path

import pytest

from collector.sources.nccl.discovery.identity import Owner
from collector.sources.nccl.discovery.procfs import Library, mapped
from collector.sources.nccl.discovery.scan import (
    FIRST_PAUSE_S,
    MAX_PAUSE_S,
    TENANT_S,
    TENANT_WALL_S,
    Scanner,
)
from pipeline.clock import SECOND_NS
from tests.collector.sources.nccl.discovery.proctree import LIBRARY, UUIDS, add_gpus, add_process
from tests.fakes import FakeClock


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A node of eight GPUs, with nothing on them."""
    add_gpus(tmp_path)
    return tmp_path


def test_a_process_with_gpus_and_the_library_is_found(proc: Path) -> None:
    """With its own pid, its job and rank, its GPUs, and where it has NCCL from."""
    environ = "SLURM_JOB_ID=71 SLURM_STEP_ID=0 RANK=11 LOCAL_RANK=3"
    add_process(proc, 812, gpus=(3,), library=LIBRARY, environ=environ, inner=7, started=4200)
    (found,) = Scanner(proc).scan(0).processes
    assert (found.pid, found.inner_pid, found.user, found.comm, found.started_s) == (
        812,
        7,
        1000,
        "python3",
        42.0,
    )
    assert (found.job, found.rank, found.uuids) == ("71.0", 11, (UUIDS[3],))
    assert found.library == Library(LIBRARY, "08:01", 4711)


def test_processes_without_a_gpu_are_none_of_ours(proc: Path) -> None:
    """Whatever libraries they have."""
    add_process(proc, 1, library=LIBRARY)
    assert Scanner(proc).scan(0).processes == ()


def test_workers_that_a_rank_forked_are_no_ranks(proc: Path) -> None:
    """They inherit what it has mapped, and come and go with every epoch."""
    add_process(proc, 812, gpus=(0,), library=LIBRARY, environ="RANK=0")
    add_process(proc, 900, gpus=(0,), library=LIBRARY, environ="RANK=0", parent=812)
    add_process(proc, 813, gpus=(1,), library=LIBRARY, environ="RANK=1", parent=500)
    assert [found.pid for found in Scanner(proc).scan(0).processes] == [812, 813]


def test_ranks_that_another_rank_started_are_ranks(proc: Path) -> None:
    """Lightning in an allocation of Slurm: all have the SLURM_PROCID of the batch script."""
    add_process(proc, 812, gpus=(0,), library=LIBRARY, environ="SLURM_PROCID=0")
    for pid, local in ((813, 1), (814, 2)):
        environ = f"SLURM_PROCID=0 LOCAL_RANK={local}"
        add_process(proc, pid, gpus=(local,), library=LIBRARY, environ=environ, parent=812)
    add_process(proc, 900, gpus=(1,), library=LIBRARY, environ=environ, parent=814)
    assert [found.pid for found in Scanner(proc).scan(0).processes] == [812, 813, 814]


@pytest.mark.root
def test_long_lists_of_open_files_keep_no_other_users_process_waiting(proc: Path) -> None:
    """A user whose processes took its time of a scan waits; whose wait is in the result."""
    clock = FakeClock()
    for pid in range(100, 110):
        os.chown(add_process(proc, pid, gpus=(0,), user=7, environ="RANK=0"), 7, 7)
    os.chown(add_process(proc, 900, gpus=(1,), user=8, environ="RANK=0"), 8, 8)

    def opened(process: Path) -> range:
        if process.stat().st_uid == 7:
            clock.advance(TENANT_S)
        return range(256)

    scanner = Scanner(proc, opened, clock_s=lambda: clock.monotonic_ns() / SECOND_NS)
    scan = scanner.scan(0)
    assert 900 in {found.pid for found in scan.processes}
    assert scan.late == {"user7": 9}
    for _ in range(9):
        scan = scanner.scan(0)
    assert (len(scan.processes), scan.late) == (11, {})


@pytest.mark.root
def test_lists_that_the_helper_makes_keep_no_other_users_process_waiting(proc: Path) -> None:
    """They cost this process no CPU time: a user's have an end by the wall, too."""
    clock = FakeClock()
    for pid in range(100, 200):
        os.chown(add_process(proc, pid, gpus=(0,), user=7, environ="RANK=0"), 7, 7)
    os.chown(add_process(proc, 900, gpus=(1,), user=8, environ="RANK=0"), 8, 8)

    def opened(process: Path) -> range:
        if process.stat().st_uid == 7:
            clock.advance(1.5)
        return range(256)

    began_ns = clock.monotonic_ns()
    scanner = Scanner(proc, opened, wall_s=lambda: clock.monotonic_ns() / SECOND_NS)
    scan = scanner.scan(0)
    assert 900 in {found.pid for found in scan.processes}
    assert scan.late == {"user7": 96}
    assert clock.monotonic_ns() - began_ns <= (TENANT_WALL_S + 1.5) * SECOND_NS


def test_secrets_in_an_environment_are_not_kept(proc: Path) -> None:
    """Only known names are."""
    add_process(
        proc, 812, gpus=(0,), environ="RANK=1 WANDB_API_KEY=secret NCCL_RAS_ADDR=localhost:30000"
    )
    (found,) = Scanner(proc).scan(0).processes
    assert found.environment == {"RANK": "1", "NCCL_RAS_ADDR": "localhost:30000"}


@pytest.mark.parametrize(
    "environ",
    [
        "SLURM_JOB_ID=71",
        "SLURM_JOB_ID=71 SLURM_STEP_ID=0",
        "SLURM_JOB_ID=ml/llm.1a2b3c4d",
        "SLURM_JOB_ID=user1000::71 TORCHELASTIC_RUN_ID=exp7",
        "TORCHELASTIC_RUN_ID=exp7 MASTER_ADDR=n1",
        "",
    ],
)
@pytest.mark.parametrize(
    "cgroup",
    [
        "0::/kubepods/burstable/pod0a1b2c3d-1111-2222-3333-444455556666/x",
        "0::/kubepods.slice/kubepods-pod0a1b2c3d_1111_2222_3333_444455556666.slice/cri-o-1.scope",
    ],
)
def test_a_process_in_a_pod_is_of_that_pod_whatever_job_it_claims(
    proc: Path, environ: str, cgroup: str
) -> None:
    """Its environment is the tenant's, its control group the kernel's."""
    add_process(proc, 5, gpus=(0,), environ=environ, cgroup=cgroup)
    (found,) = Scanner(proc).scan(0).processes
    pod = "pod0a1b2c3d-1111-2222-3333-444455556666"
    assert found.owner == Owner(pod, 1000, pod, sure=True)


@pytest.mark.parametrize("group", ["job_71/step_0", "s0123456789ABC/step_0"])
def test_a_step_of_a_slurmd_that_runs_in_a_pod_is_a_claim(proc: Path, group: str) -> None:
    """It keeps its name, as a job inside that pod."""
    pod = "pod0a1b2c3d-1111-2222-3333-444455556666"
    cgroup = f"0::/kubepods/burstable/{pod}/x/system.slice/slurmstepd.scope/{group}/user/task_0"
    add_process(proc, 5, gpus=(0,), environ="SLURM_JOB_ID=71 SLURM_STEP_ID=0", cgroup=cgroup)
    (found,) = Scanner(proc).scan(0).processes
    assert found.owner == Owner(pod, 1000, "71.0", sure=False)


@pytest.mark.parametrize(
    ("environ", "cgroup", "job"),
    [
        ("SLURM_JOB_ID=71", "0::/", "71"),
        ("", "0::/system.slice/slurmstepd.scope/job_71/step_batch/user/task_0", "71.batch"),
        (
            "MASTER_ADDR=10.0.0.1",
            (
                "0::/kubepods.slice/kubepods-pod0a1b2c3d_1111_2222_3333_444455556666.slice/"
                "cri-containerd-1.scope"
            ),
            "pod0a1b2c3d-1111-2222-3333-444455556666",
        ),
        ("TORCHELASTIC_RUN_ID=exp7 MASTER_ADDR=n1", "0::/", "torchrun:exp7"),
        ("TORCHELASTIC_RUN_ID=none MASTER_ADDR=n1 MASTER_PORT=29500", "0::/", "n1:29500"),
        ("", "0::/user.slice", ""),
    ],
)
def test_a_job_is_known_by_its_scheduler_or_launcher(
    proc: Path, environ: str, cgroup: str, job: str
) -> None:
    """Slurm first, where it is no pod, then the pod, then torchrun, then the address of rank 0."""
    add_process(proc, 5, gpus=(0,), environ=environ, cgroup=cgroup)
    assert Scanner(proc).scan(0).processes[0].job == job


def test_a_process_that_loads_cuda_later_is_found_then(proc: Path) -> None:
    """An interpreter is looked at again after the first pause."""
    scanner = Scanner(proc)
    add_process(proc, 812)
    scanner.scan(0)
    add_process(proc, 812, gpus=(0,))
    assert scanner.scan(FIRST_PAUSE_S - 1).processes == ()
    assert len(scanner.scan(FIRST_PAUSE_S).processes) == 1


@pytest.mark.slow
def test_what_never_holds_a_gpu_is_looked_at_ever_more_rarely(proc: Path) -> None:
    """A node has thousands of processes: within a day each is read a few
    hundred times, not thousands.
    """
    scanner = Scanner(proc)
    folder = add_process(proc, 1)
    read = 0
    for second in range(0, 86_400, 15):
        os.utime(folder / "maps", (0, 0))
        known = scanner._known.get(1)
        read += known is None or known.due_s <= second
        scanner.scan(second)
    assert read <= 86_400 / MAX_PAUSE_S + 6


def test_a_pid_that_is_used_again_is_another_process(proc: Path) -> None:
    """The time of its start distinguishes them."""
    scanner = Scanner(proc)
    add_process(proc, 812, gpus=(0,), environ="RANK=1")
    scanner.scan(0)
    add_process(proc, 812, gpus=(0,), environ="RANK=2", started=999)
    assert scanner.scan(1).processes[0].rank == 2


def test_a_process_that_ended_is_gone(proc: Path) -> None:
    """At the next look."""
    scanner = Scanner(proc)
    folder = add_process(proc, 812, gpus=(0,))
    scanner.scan(0)
    shutil.rmtree(folder)
    assert scanner.scan(1).processes == ()


@pytest.mark.parametrize("junk", [b"", b"812 (", b"812 (a) b) S x", b"\xff" * 100, b"(" * 4096])
def test_files_of_any_content_do_no_harm(proc: Path, junk: bytes) -> None:
    """A comm may hold anything, and a file may vanish while it is read."""
    folder = add_process(proc, 812, gpus=(0,))
    for name in ("stat", "maps", "environ", "cgroup", "status"):
        (folder / name).write_bytes(junk)
    add_process(proc, 813, gpus=(1,))
    assert [found.pid for found in Scanner(proc).scan(0).processes] == [813]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may inspect everything")
def test_processes_that_may_not_be_inspected_are_counted() -> None:
    """Those of other users, as an agent without privileges sees them."""
    assert Scanner(Path("/proc")).scan(0).hidden > 0


def test_a_file_that_may_not_be_read_hides_its_process(
    proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted, and looked at again later: privileges may come."""
    add_process(proc, 812, gpus=(0,))

    def refuse(path: Path) -> bytes:
        if path.name == "maps":
            raise PermissionError(13, "Permission denied", str(path))
        return path.read_bytes()

    monkeypatch.setattr("collector.sources.nccl.discovery.procfs.read", refuse)
    scan = Scanner(proc).scan(0)
    assert (scan.processes, scan.hidden) == ((), 1)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EBUSY, errno.ETIMEDOUT])
@pytest.mark.parametrize("which", ["descriptors", "maps"])
def test_a_helper_that_does_not_answer_ends_no_process(
    proc: Path, monkeypatch: pytest.MonkeyPatch, which: str, number: int
) -> None:
    """One that restarts, or is busy: a rank that was found before stays, and is no lost one."""
    add_process(proc, 812, gpus=(0,), library=LIBRARY, environ="RANK=1")
    broken = False

    def opened(_: Path) -> Collection[int]:
        if broken and which == "descriptors":
            raise OSError(number, "helper")
        return (0,)

    def read(path: Path) -> bytes:
        if broken and which == "maps" == path.name:
            raise OSError(number, "helper")
        return path.read_bytes()

    monkeypatch.setattr("collector.sources.nccl.discovery.procfs.read", read)
    scanner = Scanner(proc, opened)
    before = scanner.scan(0).processes
    broken = True
    assert scanner.scan(MAX_PAUSE_S).processes == before != ()
    shutil.rmtree(proc / "812")
    assert scanner.scan(MAX_PAUSE_S + 1).processes == ()


def test_the_machines_own_processes_are_scanned() -> None:
    """On this machine, whatever runs on it: the test itself holds no GPU."""
    assert os.getpid() not in {found.pid for found in Scanner(Path("/proc")).scan(0).processes}


def test_maps_of_any_names_are_read_in_a_moment() -> None:
    """Whoever runs a job names its files: names that look like rows cost no more than others."""
    row = b"7f00-7f01 r-xp 00000000 08:01 11 /" + b"08:01 1 /" * 400 + b"libnccl.so.x/y"
    began = time.process_time()
    assert (
        mapped(
            b"\n".join([b"7f02-7f03 rw-s 00000000 00:05 77 /dev/nvidiactl", *[row] * 4000])
        ).library
        is None
    )
    assert time.process_time() - began < 2
