"""Jobs of a node: found, without one of their processes, ended; as events."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from collector.node.pods_by_gpu import Pod, PodsByGpu
from collector.node.trainings import Training, Trainings
from collector.sources.nccl.discovery.environment import environment_of
from collector.sources.nccl.discovery.found import Found
from collector.sources.nccl.jobs import LOSS_S, ORDERLY_S, Jobs
from pipeline.clock import Instant
from pipeline.observation import Event
from tests.collector.sources.nccl.processes import process

AT = Instant(10**18, 10**12)


@pytest.fixture
def ranks(tmp_path: Path) -> list[Found]:
    """Four ranks of one job."""
    return [process(tmp_path, 800 + rank, rank=rank, WORLD_SIZE="16") for rank in range(4)]


def kinds(events: list[Event]) -> list[str]:
    """What happened."""
    return [event.kind for event in events]


def test_a_job_that_is_found_is_reported_with_all_its_gpus(ranks: list[Found]) -> None:
    """Each process, and the job with the GPUs it holds here and how many hosts it has."""
    events = Jobs("n1").update(ranks, 0, AT)
    assert kinds(events).count("nccl_process_found") == 4
    started = [e for e in events if e.kind == "job_started"][-1]
    assert dict(started.attributes) == {"job": "71", "gpus": "GPU-0 GPU-1 GPU-2 GPU-3", "hosts": 4}


def test_a_gpu_that_a_job_opened_while_it_was_idle_goes_to_the_job_that_uses_it(
    tmp_path: Path,
) -> None:
    """And does not come back with the next event of the first."""
    first = process(tmp_path, 700, job="70", rank=0)
    first = replace(first, uuids=("GPU-0", "GPU-1"))
    second = process(tmp_path, 800, job="71", rank=0)
    second = replace(second, uuids=("GPU-0",))
    jobs = Jobs("n1")
    jobs.update([first], 0, AT)
    jobs.update([replace(first, uuids=("GPU-1",)), second], 15, AT)
    events = jobs.update([replace(first, uuids=("GPU-1", "GPU-2")), second], 30, AT)
    assert {job.name: job.gpus for job in jobs.now.values()} == {
        "70": ("GPU-1", "GPU-2"),
        "71": ("GPU-0",),
    }
    assert [e.attributes["gpus"] for e in events if e.kind == "job_started"] == ["GPU-1 GPU-2"]


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "::1"])
def test_programs_that_each_run_on_one_host_are_several_jobs(tmp_path: Path, address: str) -> None:
    """Without a scheduler torchrun and others call rank 0 by the loopback address on every host."""
    found = process(tmp_path, job=f"{address}:29500")
    names = {host: list(_updated(host, found).now) for host in ("n1", "n2")}
    assert names == {"n1": ["n1:29500"], "n2": ["n2:29500"]}


def test_programs_without_a_name_are_a_job_of_their_host(tmp_path: Path) -> None:
    """Servers that containers of one user run on each host, and that no launcher has named, do not
    wait for one another.
    """
    found = process(tmp_path, job="")
    names = {host: list(_updated(host, found).now) for host in ("n1", "n2")}
    assert names == {host: [f"user{found.user} on {host}"] for host in ("n1", "n2")}


def _updated(host: str, *processes: Found) -> Jobs:
    jobs = Jobs(host)
    jobs.update(processes, 0, AT)
    return jobs


def test_what_does_not_change_is_not_reported_again(ranks: list[Found]) -> None:
    """A scan of the same processes has no events."""
    jobs = Jobs("n1")
    jobs.update(ranks, 0, AT)
    assert jobs.update(ranks, 15, AT) == []


def test_a_process_that_is_outlived_makes_its_job_suspect(ranks: list[Found]) -> None:
    """After some seconds in which a job that ends would be gone as well, and for some minutes."""
    jobs = Jobs("n1")
    jobs.update(ranks, 0, AT)
    (lost,) = jobs.update(ranks[1:], 15, AT)
    assert (lost.kind, lost.attributes["rank"], lost.attributes["own_pid"]) == (
        "nccl_process_lost",
        0,
        800,
    )
    job = jobs.now["71"]
    assert job.bereft_s(15 + ORDERLY_S - 1) is None
    assert job.bereft_s(15 + ORDERLY_S) == 15
    assert job.bereft_s(15 + LOSS_S) is None
    assert job.gpus == ("GPU-0", "GPU-1", "GPU-2", "GPU-3")


def test_a_job_without_processes_has_ended(ranks: list[Found]) -> None:
    """All at once, or the last of them."""
    jobs = Jobs("n1")
    jobs.update(ranks, 0, AT)
    assert kinds(jobs.update([], 15, AT)) == ["nccl_process_lost"] * 4 + ["job_ended"]
    assert jobs.now == {}


def test_two_jobs_on_a_node_are_two(tmp_path: Path) -> None:
    """Each has its own processes and GPUs."""
    jobs = Jobs("n1")
    jobs.update(
        [process(tmp_path, 1, rank=0, job="a"), process(tmp_path, 2, rank=1, job="b")], 0, AT
    )
    assert {name: job.gpus for name, job in jobs.now.items()} == {"a": ("GPU-0",), "b": ("GPU-1",)}


def test_a_job_that_starts_again_under_its_name_is_followed(
    ranks: list[Found], tmp_path: Path
) -> None:
    """Other processes with the same pids: the old are lost, the new found."""
    jobs = Jobs("n1")
    jobs.update(ranks, 0, AT)
    again = [process(tmp_path, 800 + rank, rank=rank, started_s=500.0) for rank in range(4)]
    events = kinds(jobs.update(again, 600, AT))
    assert events.count("nccl_process_lost") == 4
    assert events.count("nccl_process_found") == 4


@pytest.mark.parametrize("size", ["", "x", "10", "-4"])
def test_the_number_of_hosts_is_reported_only_where_it_follows(tmp_path: Path, size: str) -> None:
    """A size that is none, or that does not divide, gives no number."""
    ranks = [process(tmp_path, 800 + rank, rank=rank, WORLD_SIZE=size) for rank in range(4)]
    assert all("hosts" not in e.attributes for e in Jobs("n1").update(ranks, 0, AT))


def test_a_pod_whose_training_becomes_known_is_that_training_only(tmp_path: Path) -> None:
    """Jobs are seen before the API server has answered: its pod is no second job on the GPU, and
    lost no process.
    """
    trainings = Trainings()
    jobs = Jobs("n1", trainings=trainings)
    found = replace(process(tmp_path, job="pod1"), group="pod1", sure=True)
    assert [e.kind for e in jobs.update([found], 0, AT)] == ["nccl_process_found", "job_started"]
    trainings.learn({}, {"1": Training("ml/llm.1a2b3c4d", "ml", "llm", "JobSet", "1a2b3c4d")})
    events = [(e.kind, e.attributes["job"]) for e in jobs.update([found], 15, AT)]
    assert events == [
        ("job_ended", "pod1"),
        ("nccl_process_found", "ml/llm.1a2b3c4d"),
        ("job_started", "ml/llm.1a2b3c4d"),
    ]
    assert list(jobs.now) == ["ml/llm.1a2b3c4d"]
    assert jobs.update([found], 30, AT) == []


@pytest.mark.parametrize(("slurm", "expected"), [({}, None), ({"SLURM_JOB_NUM_NODES": "1"}, 1)])
def test_processes_without_a_rank_are_no_share_of_the_ranks(
    tmp_path: Path, slurm: dict[str, str], expected: int | None
) -> None:
    """Four of one node with WORLD_SIZE=4 are no job of four hosts."""
    given = {"WORLD_SIZE": "4", **slurm}
    found = [replace(process(tmp_path, 800 + n, rank=-1), environment=given) for n in range(4)]
    assert Jobs("n1").update(found, 0, AT)[-1].attributes.get("hosts") == expected


def hosts(folder: Path, environ: str) -> object:
    """How many hosts are reported for a job with four processes here that started like this."""
    started = environment_of(environ.replace(" ", "\0").encode())
    found = [
        replace(process(folder, 800 + rank, rank=rank), environment=started) for rank in range(4)
    ]
    return Jobs("n1").update(found, 0, AT)[-1].attributes.get("hosts")


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        (
            "OMPI_COMM_WORLD_SIZE=64 SLURM_STEP_NUM_NODES=1 SLURM_JOB_NUM_NODES=2",
            16,
        ),  # mpirun: the step is that of its daemons
        ("SLURM_STEP_NUM_NODES=64 SLURM_JOB_NUM_NODES=64", 64),
        ("SLURM_STEP_NUM_NODES=1 SLURM_JOB_NUM_NODES=1", 1),
        ("SLURM_JOB_NUM_NODES=1", 1),  # no step: started by the batch script itself
        (
            "SLURM_STEP_NUM_NODES=1 SLURM_JOB_NUM_NODES=64",
            None,
        ),  # a step on each node, as Ray is begun
        ("SLURM_JOB_NUM_NODES=64", None),  # whatever the batch script starts may stay on its node
        ("WORLD_SIZE=10 SLURM_STEP_NUM_NODES=2 SLURM_JOB_NUM_NODES=2", 2),
    ],
)
def test_a_job_without_a_world_size_reaches_as_far_as_mpirun_or_slurm_says(
    tmp_path: Path, environ: str, expected: int | None
) -> None:
    """Plain srun and mpirun, and libraries that set it in Python only."""
    assert hosts(tmp_path, environ) == expected


def likeness(jobs: Jobs, found: list[Found]) -> tuple[object, object]:
    """User and name of the last job that began."""
    facts = [e for e in jobs.update(found, 0, AT) if e.kind == "job_started"][-1].attributes
    return facts.get("user"), facts.get("name")


def of_group(folder: Path, group: str, *, sure: bool, job: str = "71", **claims: str) -> Found:
    """A process of user 1000 in a control group, with what it claims."""
    found = process(folder, 801, job=job)
    return replace(found, user=1000, group=group, sure=sure, environment=claims)


def test_user_and_name_are_those_of_the_job_s_own_control_group(tmp_path: Path) -> None:
    """The user is the kernel's, the name the job's word about itself."""
    sure = of_group(tmp_path, "job 71", sure=True, SLURM_JOB_NAME="train")
    assert likeness(Jobs("n1"), [sure]) == ("1000", "train")
    assert likeness(Jobs("n1"), [replace(sure, environment={})]) == (None, None)
    for name in ("user", "job_name"):
        assert likeness(Jobs("n1", hidden=[name]), [sure]) == (None, None)


def test_who_only_claims_a_scheduler_s_job_is_not_taken_for_it(tmp_path: Path) -> None:
    """It would teach the next jobs of that one's user; a job of no scheduler is its user's."""
    claim = of_group(tmp_path, "", sure=False, SLURM_JOB_NAME="train")
    assert likeness(Jobs("n1"), [claim]) == (None, None)
    own = of_group(tmp_path, "", sure=False, job="torchrun:x", SLURM_JOB_NAME="train")
    assert likeness(Jobs("n1"), [own]) == ("1000", "train")
    inside = of_group(tmp_path, "pod1", sure=False, SLURM_JOB_NAME="train")
    assert likeness(Jobs("n1"), [inside]) == (None, None)


def test_a_pod_is_known_by_namespace_and_workload(tmp_path: Path) -> None:
    """As the kubelet has them, not as its processes say; also where the kubelet answers later, and
    where it does not answer any more.
    """
    pods = PodsByGpu()
    jobs, found = Jobs("n1", pods=pods), of_group(tmp_path, "pod1", sure=True, SLURM_JOB_NAME="x")
    assert likeness(jobs, [found]) == (None, None)
    pods.learn([("GPU-0", Pod("ml", "train-worker-0"))])
    assert likeness(jobs, [found]) == ("namespace:ml", "train-worker")
    pods.learn([])
    assert jobs.update([found], 1, AT) == []


def test_a_training_is_known_by_its_own_name_whatever_its_pods_are_called(tmp_path: Path) -> None:
    """As the source of jobs has it, which does not say how many nodes a training has."""
    pods, trainings = PodsByGpu(), Trainings()
    pods.learn([("GPU-0", Pod("ml", "llm-7-workers-0-0-x7k2p"))])
    trainings.learn({}, {"1": Training("ml/llm-7.1a2b3c4d", "ml", "llm-7", "JobSet", "1a2b3c4d")})
    found = of_group(tmp_path, "pod1", sure=True, job="pod1", SLURM_JOB_NAME="x")
    assert likeness(Jobs("n1", pods=pods, trainings=trainings), [found]) == ("namespace:ml", "llm")
    hides = Jobs("n1", pods=pods, trainings=trainings, hidden=["namespace"])
    assert likeness(hides, [found]) == (None, None)


def test_a_gpu_that_pods_share_names_none(tmp_path: Path) -> None:
    """Neither may learn from the other."""
    pods = PodsByGpu()
    pods.learn([("GPU-0", Pod("ml", "train-0")), ("GPU-0", Pod("eve", "train-0"))])
    assert likeness(Jobs("n1", pods=pods), [of_group(tmp_path, "pod1", sure=True)]) == (None, None)
