"""Slurm's jobs by their processes: who is believed about the job, who about the GPUs, and
what goes with a process.
"""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import pytest

from collector.node.gpu_processes import NO_INSTANCE, Holder, ProcessesByGpu
from collector.sources.joblog.files import job_of
from collector.sources.jobs.gpus import Gpus
from collector.sources.jobs.slurm.allocations import Slurm
from collector.sources.jobs.slurm.tasks import AGAIN_S, SETTLED_S
from collector.sources.tenants.job_users import JobUsers
from pipeline.frame import Device
from tests.collector.sources.jobs.tree import GROUP, Proc
from tests.sources import ROOT

GPUS = Gpus(
    [Device("n1", "gpu", f"GPU-{n}", {"index": str(n), "minor_number": str(n)}) for n in range(4)]
)
SLUID = "s0123456789ABC"


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    """An empty tree."""
    return Proc(tmp_path)


@pytest.fixture
def slurm(proc: Proc) -> Slurm:
    """Slurm below it; user 1000 is alice."""
    return Slurm(proc.root, lambda user: {1000: "alice"}.get(user, ""))


def holding(*holders: tuple[str, int]) -> ProcessesByGpu:
    """Processes that use complete GPUs, as NVML lists them."""
    by_gpu: dict[str, tuple[Holder, ...]] = {}
    for uuid, pid in holders:
        by_gpu[uuid] = (*by_gpu.get(uuid, ()), Holder(pid, NO_INSTANCE))
    return ProcessesByGpu((), (), MappingProxyType(by_gpu))


NOBODY = holding()


def jobs(
    slurm: Slurm, held: ProcessesByGpu = NOBODY, now_s: float = 0.0
) -> list[tuple[str, str, str]]:
    """UUID, job and evidence of everything that is held."""
    return sorted((h.uuid, h.facts["job"], h.evidence) for h in slurm.holdings(GPUS, held, now_s))


def test_a_process_that_holds_a_gpu_names_its_job(proc: Proc, slurm: Slurm) -> None:
    """NVML's pid, its control group, the job: with step, user and what the environment adds."""
    proc.task(
        10,
        "71",
        SLURM_JOB_ID="71",
        SLURM_JOB_ACCOUNT="physics",
        SLURM_ARRAY_JOB_ID="70",
        SLURM_ARRAY_TASK_ID="3",
    )
    (found,) = slurm.holdings(GPUS, holding(("GPU-2", 10)), 0.0)
    wanted = {
        "job": "71",
        "step": "0",
        "user": "alice",
        "account": "physics",
        "array_job": "70",
        "array_task": "3",
    }
    assert (found.uuid, found.evidence, set(found.pids)) == ("GPU-2", "process", {10})
    assert {name: found.facts[name] for name in wanted} == wanted


def test_the_log_of_an_array_task_is_of_the_job_that_it_is(proc: Proc) -> None:
    """slurm-70_3.out, as sbatch calls it; one task of the array has the array's own number."""
    users = JobUsers()
    slurm = Slurm(proc.root, lambda _: "alice", users=users)
    for pid, job, task in ((10, "71", "3"), (11, "70", "4")):
        proc.task(pid, job, SLURM_JOB_ID=job, SLURM_ARRAY_JOB_ID="70", SLURM_ARRAY_TASK_ID=task)
    assert list(slurm.holdings(GPUS, NOBODY, 0.0)) == []
    logs = [job_of(f"/scratch/slurm-{name}.out") for name in ("70_3", "70_4", "70_5", "71")]
    assert [users.job_of(log, 1000, 0.0) for log in logs] == ["71", "70", "user1000", "71"]


def test_two_jobs_on_one_gpu_are_two(proc: Proc, slurm: Slurm) -> None:
    """A set: the last one does not win."""
    proc.task(10, "71")
    proc.task(11, "72")
    assert jobs(slurm, holding(("GPU-0", 10), ("GPU-0", 11))) == [
        ("GPU-0", "71", "process"),
        ("GPU-0", "72", "process"),
    ]


def test_the_environment_cannot_claim_another_job(proc: Proc, slurm: Slurm) -> None:
    """Where the control group has job 71, a SLURM_JOB_ID of 99 is worth nothing, and neither
    are the variables with it.
    """
    proc.task(10, "71", SLURM_JOB_ID="99", SLURM_JOB_ACCOUNT="others", SLURM_JOB_GPUS="0-3")
    (found,) = slurm.holdings(GPUS, holding(("GPU-2", 10)), 0.0)
    assert (found.facts["job"], found.facts["account"]) == ("71", "")


def test_a_job_cannot_call_itself_another_users(proc: Proc, slurm: Slurm) -> None:
    """A user without a name on this machine is its number, and not what the job calls it: faults of
    the job are sent to its owner.
    """
    proc.task(10, "71", SLURM_JOB_ID="71", SLURM_JOB_USER="alice", uids="1001\t1001")
    (found,) = slurm.holdings(GPUS, holding(("GPU-2", 10)), 0.0)
    assert found.facts["user"] == "1001"


def test_gpus_are_taken_from_what_slurmstepd_launched(proc: Proc, slurm: Slurm) -> None:
    """A task has its GPUs from its first moment; a program below it that
    has other variables is ignored.
    """
    proc.daemon(9, "71.0")
    proc.task(
        10, "71", parent=9, SLURM_JOB_ID="71", SLURM_STEP_GPUS="1,3", CUDA_VISIBLE_DEVICES="0,1"
    )
    proc.task(11, "71", parent=10, SLURM_JOB_ID="71", SLURM_STEP_GPUS="0-3")
    assert jobs(slurm) == [("GPU-1", "71", "environment"), ("GPU-3", "71", "environment")]


def test_gpus_of_a_batch_job_are_the_job_s(proc: Proc, slurm: Slurm) -> None:
    """A batch script has SLURM_JOB_GPUS and no step's."""
    proc.daemon(9, "71.batch")
    proc.task(10, "71", "batch", parent=9, SLURM_JOB_ID="71", SLURM_JOB_GPUS="2-3")
    assert jobs(slurm) == [("GPU-2", "71", "environment"), ("GPU-3", "71", "environment")]


def test_a_number_that_may_be_another_gpu_names_none(proc: Proc, slurm: Slurm) -> None:
    """Slurm numbers GPUs as NVML does or by their device files: where those differ only processes
    say which one a job has.
    """
    proc.daemon(9, "71.0")
    proc.task(10, "71", parent=9, SLURM_JOB_ID="71", SLURM_JOB_GPUS="0,2")
    minors = ("1", "0", "2")
    swapped = Gpus(
        [
            Device("n1", "gpu", f"GPU-{n}", {"index": str(n), "minor_number": m})
            for n, m in enumerate(minors)
        ]
    )
    assert [h.uuid for h in slurm.holdings(swapped, NOBODY, 0.0)] == ["GPU-2"]


def test_numbers_of_a_node_with_instances_are_not_believed(proc: Proc, slurm: Slurm) -> None:
    """Slurm numbers MIG instances in the same list: 1 may be the second instance of GPU 0."""
    proc.daemon(9, "71.0")
    proc.task(10, "71", parent=9, SLURM_JOB_ID="71", SLURM_JOB_GPUS="0,1")
    whole = [Device("n1", "gpu", f"GPU-{n}", {"index": str(n)}) for n in range(2)]
    divided = Gpus(
        whole, [Device("n1", "gpu_instance", "MIG-a", {"gpu_uuid": "GPU-0", "gpu_instance": "1"})]
    )
    assert list(slurm.holdings(divided, NOBODY, 0.0)) == []


def test_a_mig_process_holds_its_instance(proc: Proc, slurm: Slurm) -> None:
    """NVML names the instance beside the pid."""
    proc.task(10, "71")
    held = ProcessesByGpu((), (), MappingProxyType({"GPU-0": (Holder(10, 5),)}))
    assert [h.instance for h in slurm.holdings(GPUS, held, 0.0)] == ["5"]


def test_an_unreadable_environment_leaves_the_job_known(proc: Proc, slurm: Slurm) -> None:
    """Without the privilege to read it the job, step and user are known all the same."""
    proc.task(10, "71")
    (proc.root / "10" / "environ").unlink()
    assert jobs(slurm, holding(("GPU-0", 10))) == [("GPU-0", "71", "process")]


def test_an_environment_is_asked_for_again(proc: Proc, slurm: Slurm) -> None:
    """As of a helper that starts after the agent; what it said stays known while it is away."""
    proc.task(10, "71", SLURM_JOB_NAME="llama")
    environ, aside = (proc.root / "10" / name for name in ("environ", "aside"))

    def name(of: Slurm, now_s: float) -> str:
        (found,) = of.holdings(GPUS, holding(("GPU-0", 10)), now_s)
        return found.facts["job_name"]

    other = Slurm(proc.root, lambda _: "")
    assert name(other, 0.0) == "llama"
    environ.rename(aside)
    assert name(other, 1.0) == "llama"
    assert [name(slurm, now_s) for now_s in (0.0, SETTLED_S + 1)] == ["", ""]
    aside.rename(environ)
    assert name(slurm, 3 * AGAIN_S) == "llama"


def test_an_environment_is_split_at_the_first_equals_sign(proc: Proc, slurm: Slurm) -> None:
    """Values hold `=` and bytes that are no UTF-8; neither shifts a name."""
    proc.put(
        10,
        GROUP.format(job="71", step="0"),
        environ=b"A=b=c\0\xff=\xfe\0SLURM_JOB_NAME=x=y\xff\0SLURM_JOB_ID=71",
    )
    (found,) = slurm.holdings(GPUS, holding(("GPU-0", 10)), 0.0)
    assert found.facts["job_name"] == "x=y\ufffd"


def test_without_control_groups_the_step_daemon_of_root_is_believed(
    proc: Proc, slurm: Slurm
) -> None:
    """proctrack/linuxproc: whoever descends from `slurmstepd: [71.0]` is of
    job 71, grandchildren too.
    """
    proc.daemon(9, "71.0 stepmgr")
    proc.put(10, parent=9)
    proc.put(11, parent=10)
    assert jobs(slurm, holding(("GPU-0", 11))) == [("GPU-0", "71", "process")]


@pytest.mark.parametrize("uids", ["1000\t1000", "1000\t0"], ids=["user", "set-uid program"])
def test_a_step_daemon_of_anybody_else_is_not(proc: Proc, slurm: Slurm, uids: str) -> None:
    """Names and titles are free to choose, also for a program of root's that a user
    starts: he stays its real user.
    """
    proc.daemon(9, "99.0", uids=uids)
    proc.put(10, parent=9)
    assert jobs(slurm, holding(("GPU-0", 10))) == []


def test_a_step_daemon_that_got_the_number_of_a_dead_parent_is_none(
    proc: Proc, slurm: Slurm
) -> None:
    """Who starts processes until the number comes round again is no task of that step."""
    proc.put(8, comm="bash", started=5)
    proc.put(10, parent=8, started=6)
    assert jobs(slurm, holding(("GPU-0", 10))) == []
    proc.put(10, parent=1, started=6)
    proc.put(8, comm="slurmstepd", title="slurmstepd: [99.0]", uids="0\t0", started=700)
    assert jobs(slurm, holding(("GPU-0", 10))) == []


def test_a_sluid_is_resolved_by_the_title_of_its_daemon(proc: Proc, slurm: Slurm) -> None:
    """26.05: the path has a SLUID, the step daemon's title the job; the
    environment's word comes after it.
    """
    proc.daemon(9, "3385.0", f"/system.slice/slurmstepd.scope/{SLUID}/step_0/slurm")
    variables = f"SLURM_JOB_SLUID={SLUID}\0SLURM_JOB_ID=99".encode()
    proc.put(
        10,
        f"/system.slice/slurmstepd.scope/{SLUID}/step_0/user/task_0",
        parent=9,
        environ=variables,
    )
    assert jobs(slurm, holding(("GPU-0", 10))) == [("GPU-0", "3385", "process")]


def test_a_sluid_without_daemon_is_resolved_by_the_environment(proc: Proc, slurm: Slurm) -> None:
    """The variables that 26.05 sets belong together: the id counts beside its own SLUID only."""
    for pid, sluid in ((10, SLUID), (11, "s0123456789ABD")):
        variables = f"SLURM_JOB_SLUID={SLUID}\0SLURM_JOB_ID=3385".encode()
        proc.put(
            pid, f"/system.slice/slurmstepd.scope/{sluid}/step_0/user/task_0", environ=variables
        )
    assert jobs(slurm, holding(("GPU-0", 10), ("GPU-1", 11))) == [("GPU-0", "3385", "process")]


def test_a_task_that_is_moved_into_its_group_late_is_found(proc: Proc, slurm: Slurm) -> None:
    """Forked by slurmd and seen before slurmstepd moved it: the next read knows it."""
    proc.put(10, "/system.slice/slurmd.service")
    assert jobs(slurm, holding(("GPU-0", 10))) == []
    proc.task(10, "71")
    assert jobs(slurm, holding(("GPU-0", 10)), 1.0) == [("GPU-0", "71", "process")]


def test_a_job_goes_with_its_processes(proc: Proc, slurm: Slurm) -> None:
    """NVML's list may be seconds old: a process that is gone holds nothing."""
    proc.task(10, "71")
    held = holding(("GPU-0", 10))
    assert len(jobs(slurm, held)) == 1
    proc.end(10)
    assert jobs(slurm, held, 1.0) == []
    assert slurm.hidden == 1


def test_a_pid_that_is_used_again_is_another_process(proc: Proc, slurm: Slurm) -> None:
    """The same number with another start is looked at again."""
    proc.task(10, "71")
    held = holding(("GPU-0", 10))
    jobs(slurm, held)
    proc.put(10, GROUP.format(job="72", step="0"), started=99)
    assert jobs(slurm, held, 1.0) == [("GPU-0", "72", "process")]


def test_a_pid_of_no_job_that_is_used_again_is_found_within_minutes(
    proc: Proc, slurm: Slurm
) -> None:
    """Processes of no job are not read every second; after a minute or two
    they are looked at again.
    """
    proc.put(10)
    held = holding(("GPU-0", 10))
    for second in range(5):
        jobs(slurm, held, float(second))
    assert slurm.unattributed == 1
    proc.task(10, "71")
    assert jobs(slurm, held, 2 * AGAIN_S + SETTLED_S) == [("GPU-0", "71", "process")]


def test_a_user_without_name_is_a_number(proc: Proc, slurm: Slurm) -> None:
    """Neither the machine nor the job knows his name."""
    proc.task(10, "71", uids="4711\t4711")
    (found,) = slurm.holdings(GPUS, holding(("GPU-0", 10)), 0.0)
    assert found.facts["user"] == "4711"


def test_a_job_is_its_owner_s_whoever_its_processes_became(proc: Proc, slurm: Slurm) -> None:
    """A container's root holds the GPU; slurmstepd started the job for alice."""
    proc.daemon(9, "71.0")
    proc.task(10, "71", parent=9)
    proc.task(11, "71", parent=10, uids="100000\t100000")
    (found,) = slurm.holdings(GPUS, holding(("GPU-0", 11)), 0.0)
    assert found.facts["user"] == "alice"


def test_a_recorded_prolog_s_environment_is_understood(proc: Proc, slurm: Slurm) -> None:
    """What Slurm 22.05 gave job 2: GPUs 2 and 3 of the host."""
    recorded = (ROOT / "tests/data/slurm/22.05/prolog.env").read_bytes().replace(b"\n", b"\0")
    proc.daemon(9, "2.batch")
    proc.put(10, GROUP.format(job="2", step="batch"), parent=9, environ=recorded)
    assert jobs(slurm) == [("GPU-2", "2", "environment"), ("GPU-3", "2", "environment")]
