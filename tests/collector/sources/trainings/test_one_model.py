"""One model of a job: a training of Kubernetes and a job of Slurm on the same GPUs reach the
detectors alike, and its processes and logs bear its name.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from collector.node.pods_by_gpu import Pod
from collector.node.trainings import Training, Trainings
from collector.sources.jobs.allocation import Allocation
from collector.sources.jobs.job_tracker import JobTracker
from collector.sources.jobs.pods_of_trainings import in_trainings
from collector.sources.nccl.discovery.scan import Scanner
from collector.sources.nccl.jobs import Jobs
from detectors.kit.jobs import JobTracker as Detected
from pipeline.clock import SECOND_NS, Instant
from pipeline.frame import Device
from pipeline.observation import Event
from tests.collector.sources.nccl.discovery.proctree import LIBRARY, UUIDS, add_gpus, add_process

LLM = Training("ml/llm.1a2b3c4d", "ml", "llm", "PyTorchJob", "1a2b3c4d-uid", 2)
POD_UIDS = ("1b9f7c1e-0000-4000-8000-00000000000a", "1b9f7c1e-0000-4000-8000-00000000000b")


def trainings(training: Training = LLM, pods: int = 2) -> Trainings:
    """Pods of one training on this node."""
    known = Trainings()
    names = {Pod("ml", f"llm-{n}"): training for n in range(pods)}
    known.learn(names, {POD_UIDS[n]: training for n in range(pods)})
    return known


def by_slurm(gpus: int) -> list[Allocation]:
    """Job 71 with its first GPUs."""
    facts = {"job": "71", "user": "ada", "job_name": "llm"}
    return [
        Allocation(UUIDS[n], "", "slurm", "mapping", facts, hosts=1, owner=1000)
        for n in range(gpus)
    ]


def by_kubelet(gpus: int, known: Trainings) -> list[Allocation]:
    """The same GPUs, half of them by each of two pods."""
    return in_trainings(
        [
            Allocation(
                UUIDS[n],
                "",
                "kubernetes",
                "kubelet",
                {"namespace": "ml", "pod": f"llm-{2 * n // max(gpus, 1)}", "container": "main"},
            )
            for n in range(gpus)
        ],
        known,
    )


def lived(allocations: Callable[[int], list[Allocation]]) -> list[Event]:
    """It starts, gets two more GPUs, and is gone."""
    tracker = JobTracker("n1")
    events: list[Event] = []
    for second, gpus in enumerate([4, 4, 6, 6, *[0] * 40]):
        at = Instant(second * SECOND_NS, second * SECOND_NS)
        events += tracker.update(allocations(gpus), at)
    return events


def test_both_schedulers_are_told_alike() -> None:
    """The same events at the same times, but for name, scheduler and user; and the same members to
    the detectors.
    """
    slurm, kubernetes = lived(by_slurm), lived(lambda gpus: by_kubelet(gpus, trainings()))
    own = ("job", "scheduler", "user")
    for one, other in zip(slurm, kubernetes, strict=True):
        assert (one.kind, one.time_ns) == (other.kind, other.time_ns)
        assert {k: v for k, v in one.attributes.items() if k not in own} == {
            k: v for k, v in other.attributes.items() if k not in own
        }
    assert [event.kind for event in kubernetes] == ["job_started", "job_started", "job_ended"]
    assert kubernetes[0].attributes["scheduler"] == "kubernetes"
    for events, job in ((slurm, "71"), (kubernetes, LLM.id)):
        detected = Detected()
        detected.take(events[:2])
        assert detected.of("n1", UUIDS[5]) == job


def test_a_pod_without_a_training_is_told_to_no_detector() -> None:
    """It may be one of many servers."""
    assert lived(lambda gpus: by_kubelet(gpus, Trainings())) == []


def test_gpus_that_two_trainings_share_are_nobodys() -> None:
    """Time-sliced shares of one GPU."""
    known = Trainings()
    other = Training("ml/eval.99999999", "ml", "eval", "Job", "9", 1)
    known.learn({Pod("ml", "llm-0"): LLM, Pod("ml", "eval"): other}, {})
    rows = [
        Allocation(UUIDS[0], "", "kubernetes", "kubelet", {"namespace": "ml", "pod": pod})
        for pod in ("llm-0", "eval")
    ]
    tracker = JobTracker("n1")
    assert tracker.update(in_trainings(rows, known), Instant(0, 0)) == []


@pytest.mark.parametrize(("pods", "hosts"), [(2, 1), (3, 0), (0, 0)])
def test_a_training_is_of_this_node_alone_if_all_its_pods_are(pods: int, hosts: int) -> None:
    """One with a pod elsewhere may be a program of many nodes."""
    training = Training(LLM.id, "ml", "llm", "PyTorchJob", "u", pods)
    found = by_kubelet(4, trainings(training))
    assert {one.hosts for one in found} == {hosts}


@pytest.mark.parametrize("names", [("71", "71.0", "72"), (LLM.id, LLM.id, "ml/eval.v2.99999999")])
def test_detectors_give_a_gpu_to_the_next_job_alike(names: tuple[str, str, str]) -> None:
    """Processes that are seen before the scheduler's word keep their GPU, and the end of the
    scheduler's job ends what is left of its processes: a dot in a name is no step.
    """
    job, processes, following = names
    node, detected = Device("n1", "node", "n1"), Detected()

    def reported(kind: str, name: str, *, scheduler: bool = False) -> None:
        own = {"scheduler": "x"} if scheduler else {}
        facts = {"job": name, **({"gpus": UUIDS[0]} if kind == "job_started" else {}), **own}
        detected.take([Event(0, 0, node, kind, facts)])

    reported("job_started", following, scheduler=True)
    reported("job_started", processes)  # before the jobs are read again
    reported("job_started", job, scheduler=True)
    assert detected.of("n1", UUIDS[0]) == processes
    reported("job_ended", job, scheduler=True)
    assert detected.of("n1", UUIDS[0]) == ""


def test_processes_of_all_pods_of_a_training_are_one_job(tmp_path: Path) -> None:
    """By the control group of each; ranks that a launcher gave to several processes are unknown."""
    add_gpus(tmp_path)
    for n, rank in ((0, 0), (1, 1), (2, 2), (3, 2)):
        add_process(
            tmp_path,
            800 + n,
            gpus=(n,),
            library=LIBRARY,
            environ=f"RANK={rank} WORLD_SIZE=4",
            cgroup=f"0::/kubepods.slice/kubepods-pod{POD_UIDS[n // 2].replace('-', '_')}.slice/x",
        )
    jobs = Jobs("n1", trainings=trainings())
    events = jobs.update(Scanner(tmp_path).scan(0).processes, 0.0, Instant(0, 0))
    assert {event.attributes["job"] for event in events} == {LLM.id}
    ranks = [e.attributes.get("rank") for e in events if e.kind == "nccl_process_found"]
    assert ranks == [0, 1, None, None]
    (started,) = [event for event in events if event.kind == "job_started"]
    assert str(started.attributes["gpus"]).split() == list(UUIDS[:4])
