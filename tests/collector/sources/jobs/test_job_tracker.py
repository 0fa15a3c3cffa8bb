"""Jobs as events, from the real providers to the state of the detectors: which jobs are reported,
when, and what is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from collector.node.gpu_processes import NO_INSTANCE, GpuProcesses, Holder
from collector.node.inventory import Inventory
from collector.node.kept_jobs import KeptJobs
from collector.node.pods_by_gpu import Pod, PodsByGpu
from collector.node.state import State
from collector.node.trainings import Training, Trainings
from collector.sources.jobs.providers import (
    AllocationProvider,
    KubeletProvider,
    MappingProvider,
    SlurmProvider,
)
from collector.sources.jobs.source import JobsSource
from detectors.kit.jobs import JobTracker
from pipeline.frame import Device
from pipeline.observation import Event, Value
from pipeline.selfmetrics import SelfMetrics
from tests.collector.sources.jobs.kubelet import listing, pod, serving
from tests.collector.sources.jobs.tree import Proc
from tests.fakes import FakeClock

GPUS = [
    Device("n1", "gpu", f"GPU-{n}", {"index": str(n), "minor_number": str(n)}) for n in range(4)
]
INSTANCE = Device("n1", "gpu_instance", "MIG-1", {"gpu_uuid": "GPU-3", "gpu_instance": "5"})
JobEvents = list[tuple[str, dict[str, Value]]]


class Node:
    """A node with a tree below /proc, a folder of a prolog, and what the detectors make of the
    events; a tick is a second.
    """

    def __init__(self, folder: Path, *more: AllocationProvider, hidden: Iterable[str] = ()) -> None:
        self.clock, self.holders, self.jobs = FakeClock(), GpuProcesses(), JobTracker()
        self.pods, self.trainings = PodsByGpu(), Trainings()
        self.proc, self.mapping = Proc(folder / "proc"), folder / "jobs"
        self.proc.root.mkdir()
        self.mapping.mkdir()
        self.holders.note(GPUS, ())
        self.more, self.hidden = more, hidden
        self.saved: list[dict[str, Any]] = [{}]
        self.start()

    def start(self, boot: str = "boot-1") -> None:
        """The agent begins, or begins again: what the detectors know they still know."""
        metrics, inventory = SelfMetrics(), Inventory("n1", State(None))
        slurm = SlurmProvider(self.proc.root, str, self.clock, metrics)
        providers: list[AllocationProvider] = [MappingProvider(self.mapping), slurm, *self.more]
        self.source = JobsSource(
            providers,
            "n1",
            self.clock,
            metrics,
            holders=self.holders,
            inventory=inventory,
            hidden=self.hidden,
            pods=self.pods,
            trainings=self.trainings,
            kept=KeptJobs(self.saved.append, self.saved[-1], boot),
        )

    def tick(self, seconds: float = 1.0) -> JobEvents:
        """Events of one more read after so long."""
        self.clock.advance(seconds)
        events = self.source.read().events
        self.jobs.take(events)
        return [(event.kind, dict(event.attributes)) for event in events]

    def learn(self, pod: str, training: str) -> None:
        """The API server has a training's pod."""
        known = Training(training, "ml", training, "PyTorchJob")
        self.trainings.learn({Pod("ml", pod): known}, {})

    def map(self, job: str, *gpus: int) -> None:
        """The prolog of a job writes."""
        (self.mapping / f"job-{job}").write_text("".join(f"{gpu}\n" for gpu in gpus))

    def holds(self, gpu: int, *pids: int, instance: int = NO_INSTANCE) -> None:
        """Processes that NVML lists on a GPU."""
        self.holders.hold(GPUS[gpu].id, [Holder(pid, instance) for pid in pids])

    def held(self) -> list[str]:
        """The job of each GPU as the detectors know it."""
        return [self.jobs.of("n1", gpu.id) for gpu in GPUS]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """One."""
    return Node(tmp_path)


def started(job: str, gpus: str, **more: Value) -> tuple[str, dict[str, Value]]:
    """The event of a job that begins."""
    return "job_started", {"job": job, "scheduler": "slurm", "gpus": gpus, **more}


def ended(job: str) -> tuple[str, dict[str, Value]]:
    """The event of its end."""
    return "job_ended", {"job": job, "scheduler": "slurm"}


def test_the_prolog_s_jobs_are_the_detectors_jobs(node: Node) -> None:
    """Reported once when it begins, which is also when the agent does, and once
    when its holder has left.
    """
    node.map("71", 0, 1)
    assert node.tick() == [started("71", "GPU-0 GPU-1")]
    assert node.tick() == []
    assert node.held() == ["71", "71", "", ""]
    (node.mapping / "job-71").unlink()
    assert [event for _ in range(40) for event in node.tick()] == [ended("71")]
    assert node.held() == ["", "", "", ""]


def test_processes_alone_tell_of_a_job_and_it_grows(node: Node) -> None:
    """Without a prolog and without a right to read environments: its GPUs are those on which it is
    seen, one after the other.
    """
    node.proc.task(10, "71")
    node.proc.task(11, "71")
    node.holds(0, 10)
    assert node.tick() == [started("71", "GPU-0")]
    node.holds(2, 11)
    assert node.tick() == [started("71", "GPU-0 GPU-2")]


def test_a_job_keeps_the_gpu_on_which_its_process_died(node: Node) -> None:
    """Who looks for the one that the others wait for must still know it as one of them."""
    for pid in (10, 11):
        node.proc.task(pid, "71")
        node.holds(pid - 10, pid)
    node.tick()
    node.holds(0)
    assert [event for _ in range(40) for event in node.tick()] == []
    assert node.held()[:2] == ["71", "71"]


def test_the_next_job_takes_the_gpu_at_once(node: Node) -> None:
    """The end of the one before is reported with it, and once."""
    node.map("71", 0)
    node.tick()
    (node.mapping / "job-71").unlink()
    node.map("72", 0)
    assert node.tick() == [ended("71"), started("72", "GPU-0")]
    assert [event for _ in range(40) for event in node.tick()] == []
    assert node.held()[0] == "72"


def test_a_gpu_of_several_jobs_is_nobody_s(node: Node) -> None:
    """Time-slicing or MPS: neither a peer nor a job to wait for.

    It is the other's again when one has left.
    """
    node.map("71", 0, 1)
    node.map("72", 1)
    assert node.tick() == [started("71", "GPU-0")]
    (node.mapping / "job-72").unlink()
    assert node.tick() == [started("71", "GPU-0 GPU-1")]
    node.map("72", 0, 1)
    assert node.tick() == [ended("71")]


def test_a_divided_gpu_is_nobody_s(node: Node) -> None:
    """One instance is no evidence about another."""
    node.holders.note(GPUS, [INSTANCE])
    node.proc.task(10, "71")
    node.holds(3, 10, instance=5)
    node.holds(0, 10)
    assert node.tick() == [started("71", "GPU-0")]


def test_an_environment_takes_no_gpu_that_others_are_known_to_have(node: Node) -> None:
    """A job writes its own: it can neither have the GPU nor take it from its job that way."""
    node.map("71", 0)
    node.proc.daemon(9, "72.0")
    node.proc.task(10, "72", parent=9, SLURM_JOB_ID="72", SLURM_JOB_GPUS="0,1")
    assert sorted(node.tick(), key=str) == [started("71", "GPU-0"), started("72", "GPU-1")]


def test_an_environment_takes_no_gpu_from_a_job_that_had_it(node: Node) -> None:
    """Also where nothing else speaks for that job, or its process on the GPU has died."""
    for pid, job in ((10, "71"), (20, "72")):
        node.proc.daemon(pid - 1, f"{job}.0")
        node.proc.task(pid, job, parent=pid - 1, SLURM_JOB_ID=job, SLURM_JOB_GPUS="0")
        assert node.tick() == ([started("71", "GPU-0")] if job == "71" else [])
    node.holds(0, 10)
    node.tick()
    node.holds(0)
    node.proc.end(10)
    assert node.tick() == []
    assert node.held()[0] == "71"


def test_a_process_takes_no_gpu_from_another_users_job(node: Node) -> None:
    """Every user may open every GPU where nothing confines them."""
    node.proc.daemon(9, "71.0")
    node.proc.task(10, "71", parent=9)
    node.proc.daemon(19, "72.0")
    node.proc.task(20, "72", parent=19, uids="2000\t2000")
    node.holds(0, 10)
    node.tick()
    node.holds(0, 10, 20)
    assert node.tick() == []
    assert node.held()[0] == "71"


def test_the_number_of_hosts_is_reported_where_it_is_one(node: Node) -> None:
    """Of several nodes it is unknown whether one program is on all; neither of one
    part of a heterogeneous job.
    """
    node.proc.task(10, "70", SLURM_JOB_ID="70", SLURM_JOB_NUM_NODES="1")
    node.proc.task(11, "71", SLURM_JOB_ID="71", SLURM_JOB_NUM_NODES="4")
    node.proc.task(12, "72", SLURM_JOB_ID="72", SLURM_JOB_NUM_NODES="1", SLURM_HET_SIZE="2")
    for gpu in range(3):
        node.holds(gpu, 10 + gpu)
    assert node.tick() == [
        started("70", "GPU-0", hosts=1),
        started("71", "GPU-1"),
        started("72", "GPU-2"),
    ]


def test_no_job_ends_because_a_provider_is_blind(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that cannot be listed is no evidence about its jobs; one that answers
    again ends what is gone.
    """
    node.map("71", 0)
    node.tick()

    def broken(*_: object) -> None:
        raise PermissionError

    (node.mapping / "job-71").unlink()
    with monkeypatch.context() as patch:
        patch.setattr("collector.sources.jobs.slurm.mapping.JobMapping.holdings", broken)
        assert [event for _ in range(100) for event in node.tick()] == []
    assert [event for _ in range(40) for event in node.tick()] == [ended("71")]


def test_a_pod_is_no_job(tmp_path: Path) -> None:
    """One server of many in a deployment, or a part of a training: of neither does the
    kubelet say what it belongs to. Its names are kept for those who find its processes.
    """
    with serving(tmp_path / "k", {"List": listing(pod("a", [GPUS[0].id]))}):
        node = Node(tmp_path, KubeletProvider(tmp_path / "k", (), "on", FakeClock(), SelfMetrics()))
        assert node.tick() == []
        assert node.pods.of(["GPU-0"]) == Pod("ml", "a")
    assert not node.jobs.knows("n1")


def test_a_kubelet_that_is_gone_keeps_no_job_of_slurm(tmp_path: Path) -> None:
    """It knew nothing of it."""
    node = Node(tmp_path, KubeletProvider(tmp_path / "k", (), "on", FakeClock(), SelfMetrics()))
    node.map("71", 0)
    node.tick()
    (node.mapping / "job-71").unlink()
    assert node.tick(60) == [ended("71")]


HOLDINGS = "collector.sources.jobs.{}.holdings"
KUBELET = HOLDINGS.format("kubelet.client.Kubelet")
BLIND = {
    "kubelet": KUBELET,
    "processes": HOLDINGS.format("slurm.allocations.Slurm"),
    "mapping": HOLDINGS.format("slurm.mapping.JobMapping"),
}


@pytest.mark.parametrize(
    ("blind", "kept"), [("kubelet", "ml/llm"), ("processes", "71"), ("mapping", "71")]
)
def test_a_blind_provider_keeps_the_jobs_of_its_scheduler_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blind: str, kept: str
) -> None:
    """What it does not list may still run, and nothing is reported of it when the provider answers
    again; a job of the other scheduler that ended meanwhile is over.
    """
    with serving(tmp_path / "k", {"List": listing(pod("a", [GPUS[1].id]))}):
        kubelet = KubeletProvider(tmp_path / "k", (), "on", FakeClock(), SelfMetrics())
        node = Node(tmp_path, kubelet)
        node.learn("a", "ml/llm")
        node.map("71", 0)
        assert [facts["job"] for _, facts in node.tick()] == ["71", "ml/llm"]
        (node.mapping / "job-71").unlink()
        with monkeypatch.context() as patch:
            patch.setattr(KUBELET, lambda *_: ())
            patch.setattr(BLIND[blind], _broken)
            gone = [(kind, facts["job"]) for _ in range(100) for kind, facts in node.tick()]
        assert gone == [("job_ended", "71" if kept == "ml/llm" else "ml/llm")]
        node.map("71", 0)
        assert kept not in [facts["job"] for _, facts in node.tick()]
        assert set(node.held()) == {"71", "ml/llm", ""}


def _broken(*_: object) -> None:
    raise OSError("connection refused")


def test_hidden_names_do_not_hide_whose_gpus_belong_together(tmp_path: Path) -> None:
    """The job's number stays, and nothing else of it is reported."""
    node = Node(tmp_path, hidden=["user", "account", "job_name"])
    node.proc.task(10, "71", SLURM_JOB_ID="71", SLURM_JOB_NAME="secret", SLURM_JOB_ACCOUNT="secret")
    node.holds(0, 10)
    assert node.tick() == [started("71", "GPU-0")]


def test_a_hostile_name_is_bounded_and_printable(node: Node) -> None:
    """In dcgm-exporter's form a job may be called anything."""
    (node.mapping / "0").write_bytes(b"\x1b[31mjob-" + b"x" * 10_000 + b"\n")
    ((_, facts),) = node.tick()
    name = str(facts["job"])
    assert len(name) <= 253
    assert name.isprintable()


def nccl(kind: str, job: str, gpus: str = "") -> Event:
    """The events of the processes that use NCCL."""
    return Event(0, 0, Device("n1", "node", "n1"), kind, {"job": job, "gpus": gpus})


@pytest.mark.parametrize("name", ["71.0", "71", "torchrun:x"])
def test_processes_and_scheduler_do_not_take_gpus_from_each_other(node: Node, name: str) -> None:
    """The program that uses NCCL has its GPUs while it lasts, its job those before, during and
    after it, under whatever name.
    """
    node.map("71", 0, 1, 2)
    node.tick()
    node.jobs.take([nccl("job_started", name, "GPU-0 GPU-1")])
    assert node.held() == [name, name, "71", ""]
    assert len(node.jobs.members("71")) == (3 if name == "71" else 1)
    node.map("71", 0, 1, 2, 3)
    node.tick()
    node.start()
    node.tick()
    assert node.held() == [name, name, "71", "71"]
    node.jobs.take([nccl("job_ended", name)])
    assert node.held() == ["71", "71", "71", "71"]
    assert node.jobs.on("n1") == "71"


def test_a_program_of_a_job_that_is_over_hides_no_new_one(node: Node) -> None:
    """Its end was never reported: the agent was not there.

    A step that was found before its job was reported stays.
    """
    node.jobs.take([nccl("job_started", "71.0", "GPU-0"), nccl("job_started", "72.0", "GPU-1")])
    node.map("71", 0, 1)
    node.tick()
    node.map("72", 0, 1)
    (node.mapping / "job-71").unlink()
    node.start()
    node.tick()
    assert node.held()[:2] == ["72", "72.0"]


def test_a_program_whose_end_was_never_reported_ends_with_its_job(node: Node) -> None:
    """The agent was off when it left, and its job went on: it holds no GPU when that is over, nor
    when the next job has them.
    """
    node.jobs.take([nccl("job_started", "71.0", "GPU-0"), nccl("job_started", "73.0", "GPU-3")])
    node.map("71", 0, 1)
    node.tick()
    (node.mapping / "job-71").unlink()
    assert [event for _ in range(40) for event in node.tick()] == [ended("71")]
    assert node.held() == ["", "", "", "73.0"]
    node.map("72", 0, 1)
    node.tick()
    assert node.held() == ["72", "72", "", "73.0"]


def test_the_scheduler_s_answer_survives_a_restart(node: Node) -> None:
    """Both words, exactly."""
    node.map("71", 0, 1)
    node.tick()
    node.jobs.take([nccl("job_started", "71.0", "GPU-0")])
    other = JobTracker()
    other.prepare(node.jobs.state())()
    assert [other.of("n1", gpu.id) for gpu in GPUS] == ["71.0", "71", "", ""]
    other.take([nccl("job_ended", "71.0")])
    assert (other.of("n1", "GPU-0"), other.of("n1", "GPU-1")) == ("71", "71")


def test_a_job_that_ended_while_the_agent_was_off_is_ended(node: Node) -> None:
    """Once no provider has listed it for as long as any other; who takes its GPUs ends it at once,
    and one that runs on is reported again.
    """
    for job in (71, 72, 73):
        node.map(str(job), job - 71)
    node.tick()
    for job in (71, 72):
        (node.mapping / f"job-{job}").unlink()
    node.map("74", 1)
    node.start()
    assert node.tick() == [ended("72"), started("73", "GPU-2"), started("74", "GPU-1")]
    assert node.tick(29) == []
    assert node.tick(1) == [ended("71")]
    assert node.held() == ["", "74", "73", ""]
    node.start()
    assert [facts["job"] for _, facts in node.tick()] == ["73", "74"]


def test_a_restart_during_which_a_job_keeps_on_ends_nothing(node: Node) -> None:
    """Its process on one GPU may have died: that GPU stays its own."""
    node.map("71", 0, 1)
    node.tick()
    node.map("71", 0)
    node.start()
    events = [event for _ in range(40) for event in node.tick()]
    assert events == [started("71", "GPU-0 GPU-1")]


@pytest.mark.parametrize("runs_again", [False, True])
def test_jobs_end_with_their_boot(node: Node, runs_again: bool) -> None:
    """At once, whatever a provider remembers; a scheduler may start the same job again."""
    node.map("71", 0)
    node.tick()
    if not runs_again:
        (node.mapping / "job-71").unlink()
    node.start("boot-2")
    assert node.tick() == [ended("71"), *([started("71", "GPU-0")] if runs_again else [])]
    node.start("boot-2")
    assert ended("71") not in node.tick()


@pytest.mark.parametrize("runs", [True, False])
def test_trainings_that_are_not_known_yet_end_no_job(tmp_path: Path, runs: bool) -> None:
    """After a restart the kubelet answers before the API server: a training runs on while a pod has
    its GPU, and ends once a list of trainings lacks it.
    """
    with serving(tmp_path / "k", {"List": listing(pod("a", [GPUS[1].id]))}):
        node = Node(tmp_path, KubeletProvider(tmp_path / "k", (), "on", FakeClock(), SelfMetrics()))
        node.learn("a", "ml/llm")
        node.tick()
        node.trainings = Trainings()
        node.start()
        assert [event for _ in range(10) for event in node.tick(10)] == []
        if runs:
            node.learn("a", "ml/llm")
        else:
            node.trainings.learn({}, {})
        kinds = [kind for _ in range(5) for kind, _ in node.tick(10)]
        assert kinds == ["job_started" if runs else "job_ended"]


def test_a_training_whose_pod_left_while_the_agent_was_off_is_ended(tmp_path: Path) -> None:
    """No pod has its GPU any more: that needs no answer of the API server."""
    with serving(tmp_path / "k", {"List": listing(pod("a", [GPUS[1].id]))}):
        node = Node(tmp_path, KubeletProvider(tmp_path / "k", (), "on", FakeClock(), SelfMetrics()))
        node.learn("a", "ml/llm")
        node.tick()
    with serving(tmp_path / "k", {"List": b""}):
        node.trainings = Trainings()
        node.start()
        assert [kind for _ in range(40) for kind, _ in node.tick()] == ["job_ended"]


@pytest.mark.parametrize(
    "document",
    [
        {"jobs": 7},
        {"jobs": [["71"]]},
        {"jobs": [["71", "slurm", 7]]},
        {"jobs": {"71": 1}},
        {"boot_id": 7},
    ],
)
def test_a_damaged_file_of_jobs_is_no_jobs(document: dict[str, Any], node: Node) -> None:
    """The agent begins without it, and keeps jobs from then on."""
    node.saved.append(document)
    node.start()
    node.map("71", 0)
    assert node.tick() == [started("71", "GPU-0")]
    assert node.saved[-1]["jobs"] == [["71", "slurm", ["GPU-0"]]]


def test_jobs_are_saved_when_they_change(node: Node) -> None:
    """Not at each read."""
    node.map("71", 0)
    for _ in range(10):
        node.tick()
    assert len(node.saved) == 2


def test_user_and_name_are_reported_once_they_are_known(node: Node) -> None:
    """The prolog writes before a process runs; the user is the kernel's, whatever the job claims,
    and stays when its processes have ended.
    """
    node.map("71", 0)
    assert node.tick() == [started("71", "GPU-0")]
    node.proc.task(
        10,
        "71",
        SLURM_JOB_ID="71",
        SLURM_JOB_NAME="train",
        SLURM_JOB_USER="root",
        uids="1001\t1001",
    )
    node.holds(0, 10)
    assert node.tick() == [started("71", "GPU-0", user="1001", name="train")]
    assert node.tick() == []
    node.map("71", 0, 1)
    node.proc.end(10)
    node.holds(0)
    assert node.tick() == [started("71", "GPU-0 GPU-1", user="1001", name="train")]


def test_a_hostile_job_name_is_bounded_and_printable(node: Node) -> None:
    """Its user chose it."""
    name = "\x1b[31m" + "x" * 10_000
    node.proc.task(10, "71", SLURM_JOB_ID="71", SLURM_JOB_NAME=name)
    node.holds(0, 10)
    ((_, facts),) = node.tick()
    assert len(str(facts["name"])) <= 128
    assert str(facts["name"]).isprintable()
