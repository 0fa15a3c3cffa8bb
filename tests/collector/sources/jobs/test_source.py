"""The source of jobs, from the answers of providers to the page and back: job changes, blind
providers, hostile names, what is hidden.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import get_args

import grpc
import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from collector.agent.judge import judge_of
from collector.config.settings import Config, Personal
from collector.node.gpu_processes import NO_INSTANCE, GpuProcesses, Holder
from collector.node.inventory import Inventory
from collector.node.job_processes import JobProcesses
from collector.node.state import State
from collector.sources.jobs.allocation import MAX_NAME, Allocation
from collector.sources.jobs.gpus import Gpus
from collector.sources.jobs.providers import (
    PATIENCE_NS,
    AllocationProvider,
    KubeletProvider,
    MappingProvider,
    SlurmProvider,
)
from collector.sources.jobs.source import MAX_HOLDINGS, JobsSource
from pipeline.catalog import PROFILES, Profile, agent
from pipeline.catalog.device_job import KIND, PERSONAL
from pipeline.dcgm import DEFAULT_FILE, DcgmDialect, JobLabels, Options, load
from pipeline.exposition import Exposition
from pipeline.observation import Reading, Unread
from pipeline.selfmetrics import SelfMetrics
from tests.collector.sources.jobs.kubelet import listing, message, pod, serving
from tests.collector.sources.jobs.tree import Proc
from tests.fakes import FakeClock, observed
from tests.pipeline.dcgm.nodes import busy
from tests.pipeline.dcgm.nodes import gpu as h100
from tests.pipeline.exposition.pages import frame
from tests.wait import PATIENCE_S

INFO = "tocsin_device_job_info"


class Answers:
    """A provider that answers what it is given, or raises it."""

    name = "processes"
    unread: Sequence[Unread] = ()

    def __init__(self, *holdings: Allocation) -> None:
        self.answer: list[Allocation] | OSError = list(holdings)

    def there(self) -> bool:
        return True

    def holdings(self, gpus: object, processes: object) -> Iterable[Allocation]:
        if isinstance(self.answer, OSError):
            raise self.answer
        return self.answer


class House:
    """A source of jobs with an agent's page behind it; a tick is a second."""

    def __init__(
        self,
        *providers: AllocationProvider,
        hidden: Iterable[str] = (),
        jobs: JobLabels = JobLabels(),  # noqa: B008 - a frozen value
        running: JobProcesses | None = None,
    ) -> None:
        self.clock, self.metrics, self.holders = FakeClock(), SelfMetrics(), GpuProcesses()
        self.holders.note([h100(n) for n in range(2)], ())
        inventory = Inventory("n1", State(None))
        self.source = JobsSource(
            providers,
            "n1",
            self.clock,
            self.metrics,
            holders=self.holders,
            inventory=inventory,
            hidden=hidden,
            running=running,
        )
        dialect = DcgmDialect(Options(load(DEFAULT_FILE, "dcgm-4.8"), jobs=jobs), self.clock)
        self.page = Exposition(
            self.metrics, clock=self.clock, periods={"nvml": 1.0, "jobs": 1.0}, dialect=dialect
        )
        self.judge = judge_of(Config(), self.metrics, self.clock)

    def tick(self) -> Reading:
        """Read the GPUs and the jobs, judge and show them."""
        self.clock.advance(1)
        reading = self.source.read()
        gpus = frame(self.clock, "gpu", [(h100(n), busy()) for n in range(2)])
        for observation in (
            observed(self.clock, gpus),
            observed(self.clock, *reading.frames, source="jobs"),
        ):
            judged = self.judge.judge(observation)
            self.page.write(judged.observation, judged.findings, judged.incidents)
        return reading

    def shown(self, name: str = INFO) -> list[dict[str, str]]:
        """Labels of a family's series."""
        families = parse_text(self.page.render().decode())
        return [dict(s.labels) for f in families for s in f.samples if s.name == name]

    def pids(self, *pids: int, gpu: int = 0) -> None:
        """Processes that hold a GPU, as the NVML source lists them."""
        self.holders.hold(h100(gpu).id, [Holder(pid, NO_INSTANCE) for pid in pids])


def open_files() -> int:
    """Descriptors of this process."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def job(
    number: str, gpu: int = 0, pids: Iterable[int] = (), evidence: str = "process", **facts: str
) -> Allocation:
    """A job of Slurm that has a GPU."""
    return Allocation(h100(gpu).id, "", "slurm", evidence, {"job": number} | facts, frozenset(pids))


def held_by_pod(gpu: int, facts: Mapping[str, str]) -> Allocation:
    """A pod that has a GPU."""
    return Allocation(h100(gpu).id, "", "kubernetes", "kubelet", facts)


def test_a_holder_is_an_info_series_to_join_on() -> None:
    """Identity of the GPU as its other series have it, and all that is known of the job."""
    house = House(Answers(job("71", step="0", user="ada", account="physics")))
    house.tick()
    assert house.shown() == [
        {
            "gpu": "0",
            "uuid": h100(0).id,
            "scheduler": "slurm",
            "job": "71",
            "step": "0",
            "user": "ada",
            "account": "physics",
            "evidence": "process",
        }
    ]


def test_statements_about_one_job_are_one_series() -> None:
    """The strongest evidence counts, steps are merged, and what one knows the other need not."""
    mapping = Answers(job("71", evidence="mapping", mapped="71"))
    processes = Answers(
        job("71", pids=[1], step="0", user="ada"),
        job("71", pids=[2], step="1"),
        job("71", evidence="environment"),
    )
    house = House(mapping, processes)
    house.pids(1, 2)
    house.tick()
    (shown,) = house.shown()
    assert (shown["evidence"], shown["step"], shown["user"]) == ("mapping", "0,1", "ada")
    assert house.page.snapshot().of(KIND)[0].frame.value("processes", 0) == 2


def test_a_job_that_holds_a_gpu_and_does_not_use_it_has_no_processes() -> None:
    """0 is idle; before the GPU's processes were listed there is no number at all."""
    house = House(Answers(job("71", evidence="mapping"), job("72", gpu=1, evidence="mapping")))
    house.pids(gpu=1)
    reading = house.tick().frames[0]
    assert [reading.value("processes", row) for row in range(2)] == [None, 0]


def test_processes_of_a_pod_are_those_of_the_gpu_it_has_alone(tmp_path: Path) -> None:
    """On a GPU that two pods share it is unknown whose they are."""
    with serving(
        tmp_path / "k",
        {"List": listing(pod("a", [h100(0).id]), *(pod(p, [h100(1).id]) for p in "bc"))},
    ):
        house = House(KubeletProvider(tmp_path / "k", (), "on", FakeClock(), SelfMetrics()))
        house.pids(1, 2, 3, gpu=0)
        house.pids(4, gpu=1)
        reading = house.tick().frames[0]
    found = {
        d.attributes["pod"]: reading.value("processes", row)
        for row, d in enumerate(reading.devices)
    }
    assert found == {"a": 3, "b": None, "c": None}


def test_a_device_of_a_pod_that_no_gpu_has_is_unread(tmp_path: Path) -> None:
    """It is counted for as long as the pod has it, and the pod's other devices are read."""
    strange = "MIG-00000000-0000-0000-0000-000000000000"
    with serving(tmp_path / "k", {"List": listing(pod("a", [h100(0).id, strange]))}):
        house = House(KubeletProvider(tmp_path / "k", (), "on", FakeClock(), SelfMetrics()))
        reading = house.tick()
    assert [(u.reason, u.device) for u in reading.unread] == [("unknown GPU", strange)]
    assert [d.attributes["pod"] for d in reading.frames[0].devices] == ["a"]


def test_a_job_change_is_shown_at_the_next_read() -> None:
    """One job goes, another comes: on the next page the old one is nowhere, in neither dialect."""
    provider = Answers(job("one-4711", mapped="one-4711"))
    house = House(provider)
    house.tick()
    assert house.page.render().count(b'hpc_job="one-4711"') > 1
    provider.answer = [job("two-4712", mapped="two-4712")]
    house.tick()
    assert [s["job"] for s in house.shown()] == ["two-4712"]
    assert b"one-4711" not in house.page.render()
    provider.answer = []
    house.tick()
    assert b"two-4712" not in house.page.render()
    assert house.shown("DCGM_FI_DEV_GPU_TEMP")


def test_jobs_are_not_shown_when_the_source_has_fallen_silent() -> None:
    """After three missed reads whose job it was may no longer be true; GPUs themselves stay."""
    house = House(Answers(job("71")))
    house.tick()
    house.clock.advance(10)
    assert house.shown() == []
    assert house.shown("tocsin_gpu_info")


def test_a_blind_provider_costs_its_own_jobs_only(caplog: pytest.LogCaptureFixture) -> None:
    """The kubelet is gone: its pods go, Slurm's job and the GPUs stay, a metric and one line report
    that, and one that it is back.
    """
    kubelet, slurm = Answers(held_by_pod(0, {"pod": "p"})), Answers(job("71", gpu=1))
    kubelet.name = "kubelet"
    pods = kubelet.answer
    house = House(kubelet, slurm)
    house.tick()
    kubelet.answer = OSError("connection refused")
    with caplog.at_level(logging.INFO, "tocsin.jobs"):
        readings = [house.tick() for _ in range(3)]
        assert [s.get("job") for s in house.shown()] == ["71"]
        assert house.metrics.value(agent.JOBS_TELLER_UP, "kubelet") == 0
        assert [u.field for u in readings[0].unread] == ["kubelet"]
        assert house.shown("DCGM_FI_DEV_GPU_TEMP")
        kubelet.answer = pods
        house.tick()
    assert len(house.shown()) == 2
    assert [r.levelname for r in caplog.records] == ["WARNING", "INFO"]
    assert "connection refused" in caplog.text


def test_a_kubelet_that_is_not_there_is_not_missed_until_it_was(tmp_path: Path) -> None:
    """Mode auto: no node without Kubernetes complains; one whose kubelet stopped does."""
    house = House(KubeletProvider(tmp_path / "k", (), "auto", FakeClock(), SelfMetrics()))
    assert house.tick().unread == ()
    with serving(tmp_path / "k", {"List": listing(pod("a", [h100(0).id]))}):
        house.tick()
        assert [s["pod"] for s in house.shown()] == ["a"]
    (tmp_path / "k").unlink(missing_ok=True)
    assert [u.field for u in house.tick().unread] == ["kubelet"]
    assert house.shown() == []


def test_in_mode_on_a_kubelet_is_missed_from_the_first_read(tmp_path: Path) -> None:
    """Where it is switched on its absence is an error."""
    house = House(KubeletProvider(tmp_path / "k", (), "on", FakeClock(), SelfMetrics()))
    assert [u.field for u in house.tick().unread] == ["kubelet"]


@pytest.mark.slow
def test_a_kubelet_that_hangs_does_not_slow_down_the_others(tmp_path: Path) -> None:
    """It costs one deadline in a quarter of a minute; Slurm's job is reported in every read
    meanwhile, and a kubelet that wakes is found.
    """
    asked, wake = [], Event()

    def hang(_request: bytes, _context: grpc.ServicerContext) -> bytes:
        asked.append(1)
        wake.wait(PATIENCE_S)
        return listing(pod("a", [h100(0).id]))

    with serving(tmp_path / "k", {"List": hang}):
        clock = FakeClock()
        house = House(
            KubeletProvider(tmp_path / "k", (), "auto", clock, SelfMetrics()),
            Answers(job("71", gpu=1)),
        )
        for _ in range(10):
            assert [u.field for u in house.tick().unread] == ["kubelet"]
            assert [s.get("job") for s in house.shown()] == ["71"]
        assert len(asked) == 1
        wake.set()
        clock.advance(PATIENCE_NS / 1e9)
        house.tick()
        assert sorted(s.get("pod", "") for s in house.shown()) == ["", "a"]


def test_what_a_kubelet_could_give_out_goes_with_it(tmp_path: Path) -> None:
    """A number that no answer confirms any more is no number."""
    metrics, answer = (
        SelfMetrics(),
        message((1, message((1, "nvidia.com/gpu"), (2, "a"), (2, "b")))),
    )
    house = House(KubeletProvider(tmp_path / "k", (), "auto", FakeClock(), metrics))
    with serving(tmp_path / "k", {"List": b"", "GetAllocatableResources": answer}):
        house.tick()
        assert metrics.value(agent.KUBERNETES_ALLOCATABLE, "nvidia.com/gpu") == 2
    (tmp_path / "k").unlink(missing_ok=True)
    house.tick()
    assert metrics.value(agent.KUBERNETES_ALLOCATABLE, "nvidia.com/gpu") is None


def test_a_kubelet_that_does_not_count_still_tells_its_pods(tmp_path: Path) -> None:
    """Before 1.23 a feature gate turns GetAllocatableResources into an
    error of no particular kind.
    """

    def disabled(_request: bytes, context: grpc.ServicerContext) -> bytes:
        context.abort(grpc.StatusCode.UNKNOWN, "Pod Resources API GetAllocatableResources disabled")
        return b""

    with serving(
        tmp_path / "k",
        {"List": listing(pod("a", [h100(0).id])), "GetAllocatableResources": disabled},
    ):
        house = House(KubeletProvider(tmp_path / "k", (), "auto", FakeClock(), SelfMetrics()))
        assert house.tick().unread == ()
    assert [s["pod"] for s in house.shown()] == ["a"]


def test_a_mapping_folder_that_does_not_exist_yet_maps_nothing(tmp_path: Path) -> None:
    """The first prolog makes it: until then there is nothing to complain about."""
    house = House(MappingProvider(tmp_path / "jobs"))
    assert house.tick().unread == ()
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "0").write_text("71\n")
    house.tick()
    assert [s["job"] for s in house.shown()] == ["71"]


HOSTILE = [
    'a"b',
    "a\nb} 1",
    "\\",
    "\x00\x1b[31m",
    "\ud800",
    "x" * 10_000,
    "\u202e",
    '{job="1"} 2 # EOF',
]


@pytest.mark.slow
@pytest.mark.parametrize("evil", HOSTILE)
def test_a_hostile_name_is_bounded_and_breaks_no_page(evil: str) -> None:
    """Users choose names of jobs and pods: every page parses, in every dialect and format, and no
    label is longer than a pod's name may be.
    """
    pods = held_by_pod(1, {"pod": evil, "namespace": "ns"})
    house = House(
        Answers(job("71", job_name=evil, mapped=evil), pods), jobs=JobLabels(kubernetes=True)
    )
    house.tick()
    assert len(house.shown()) == 2
    assert all(
        len(value) <= MAX_NAME
        for name in (INFO, "DCGM_FI_DEV_GPU_TEMP")
        for s in house.shown(name)
        for value in s.values()
    )


def test_series_are_bounded_whatever_providers_report() -> None:
    """A mapping of a thousand jobs is cut, and that is reported."""
    house = House(Answers(*(job(str(n)) for n in range(1000))))
    assert [u.reason for u in house.tick().unread] == ["too many jobs"]
    assert len(house.shown()) == MAX_HOLDINGS


EVE: dict[str, Callable[[int, int], Allocation]] = {
    "user2": lambda n, gpu: replace(job(f"a{n}", gpu, evidence="environment"), owner=2),
    "user2 with processes": lambda n, gpu: replace(job(f"a{n}", gpu, evidence="process"), owner=2),
    "eve": lambda n, gpu: held_by_pod(gpu, {"namespace": "eve", "pod": f"a{n}"}),
}
ADA: dict[str, Callable[[int], Allocation]] = {
    "user1": lambda gpu: replace(job("71", gpu), owner=1),
    "ada": lambda gpu: held_by_pod(gpu, {"namespace": "ada", "job": "71", "pod": "z"}),
    "the prolog alone": lambda gpu: job("71", gpu, evidence="mapping"),
}


@pytest.mark.parametrize("ada", ADA)
@pytest.mark.parametrize("eve", EVE)
def test_a_flood_of_one_tenants_jobs_takes_no_gpu_from_another(ada: str, eve: str) -> None:
    """All GPUs of its job are shown and reported; whose jobs are left out is shown too."""
    flood = [EVE[eve](n, gpu) for n in range(300) for gpu in range(2)]
    house = House(Answers(*flood, *map(ADA[ada], range(2))))
    reading = house.tick()
    shown = [s["uuid"] for s in house.shown() if s.get("job") == "71"]
    assert shown == [h100(gpu).id for gpu in range(2)]
    assert len(house.shown()) == MAX_HOLDINGS
    assert [(u.reason, u.field) for u in reading.unread] == [("too many jobs", "346 more")]
    cut = dict(dict(house.metrics.series())[agent.TENANT_CUT])
    assert {tenant for _, tenant, _ in cut} - {"_other"} == {eve.partition(" ")[0]}
    assert sum(cut.values()) == 346
    gpus = [e.attributes["gpus"] for e in reading.events if e.attributes["job"] == "71"]
    # A GPU on which processes of many jobs are is nobody's, whichever of them are shown.
    assert gpus == ([] if "processes" in eve else [f"{h100(0).id} {h100(1).id}"])


def test_a_pod_whose_neighbours_are_left_out_does_not_have_their_processes() -> None:
    """It shares its GPU, also where the rows of the others are not shown."""
    others = [held_by_pod(n // 300, {"namespace": "eve", "pod": f"a{n}"}) for n in range(301)]
    own = held_by_pod(1, {"namespace": "ada", "pod": "z", "job": "ml/llm"})
    running = JobProcesses()
    house = House(Answers(*others, own), running=running)
    house.pids(1, 2, gpu=1)
    frame = house.tick().frames[0]
    (row,) = (n for n, d in enumerate(frame.devices) if d.attributes["namespace"] == "ada")
    assert frame.value("processes", row) is None
    assert running.look() == {}


def test_of_one_tenants_jobs_the_surest_stay() -> None:
    """Its claims take no place of what is known of it."""
    claims = [replace(job(f"a{n}", evidence="environment"), owner=1) for n in range(300)]
    house = House(Answers(*claims, replace(job("z", gpu=1), owner=1)))
    house.tick()
    assert "z" in [s["job"] for s in house.shown()]


def test_what_is_hidden_leaves_the_source_by_no_way() -> None:
    """Neither on the page, in either dialect, nor in what the store gets; job and GPU stay."""
    facts = {name: f"secret-{name}" for name in PERSONAL}
    jobs = replace(job("71"), facts={"job": "71", **facts})
    house = House(
        Answers(jobs, held_by_pod(1, {**facts, "claim_device": "gpu-1"})),
        hidden=PERSONAL,
        jobs=JobLabels(kubernetes=True, dra=True),
    )
    reading = house.tick()
    assert b"secret" not in house.page.render()
    assert "secret" not in str(reading)
    assert {s["uuid"]: s.get("job") for s in house.shown()} == {h100(0).id: "71", h100(1).id: None}


def test_holders_that_only_a_hidden_name_tells_apart_are_one() -> None:
    """Two pods without names are one series, not two that clash."""
    pods = [held_by_pod(0, {"pod": p, "namespace": "ns"}) for p in "ab"]
    house = House(Answers(*pods), hidden=["pod"])
    house.tick()
    assert [s["namespace"] for s in house.shown()] == ["ns"]
    assert house.metrics.value(agent.EXPOSITION_DROPPED, "duplicate") == 0


def test_the_setting_knows_every_name_that_can_be_hidden() -> None:
    """What the catalogue calls personal is what the configuration takes."""
    assert get_args(Personal) == PERSONAL


def test_the_devices_of_a_frame_are_the_same_objects_while_nothing_changes() -> None:
    """Page, log and store compare identity: a steady node costs them nothing."""
    house = House(Answers(job("71", user="ada")))
    assert house.tick().frames[0].devices is house.tick().frames[0].devices


def test_before_the_driver_answers_the_known_gpus_serve() -> None:
    """The inventory that was saved before the restart has the GPU that a mapping file means."""
    inventory = Inventory("n1", State(None))
    inventory.learn("gpu", [h100(3)])
    assert Gpus(inventory.devices("gpu")).numbered("3") == h100(3).id


@pytest.mark.slow
def test_a_thousand_job_changes_leave_nothing_behind(tmp_path: Path) -> None:
    """Other pids, users, pods and mapped jobs a thousand times over: series, descriptors and
    memory are those of one.
    """
    proc = Proc(tmp_path / "proc")
    proc.root.mkdir()
    folder = tmp_path / "jobs"
    folder.mkdir()
    clock = FakeClock()
    house = House(
        SlurmProvider(proc.root, str, clock, SelfMetrics()),
        MappingProvider(folder),
        jobs=JobLabels(kubernetes=True),
    )

    def change(number: int) -> None:
        who = f"{number}\t{number}"
        proc.task(
            1000,
            str(number),
            started=number,
            uids=who,
            SLURM_JOB_ID=str(number),
            SLURM_JOB_NAME=f"run-{number}",
        )
        (folder / "0").unlink(missing_ok=True)
        (folder / "0").write_text(f"{number}\n")
        house.pids(1000)
        clock.advance(1)
        house.tick()
        if number % 5 == 0:  # a scrape
            assert house.page.render().count(b"job=") == lines

    change(1)
    lines = house.page.render().count(b"job=")
    for number in range(2, 100):
        change(number)
    gc.collect()
    descriptors, objects = open_files(), len(gc.get_objects())
    for number in range(100, 1000):
        change(number)
    gc.collect()
    assert open_files() == descriptors
    assert len(gc.get_objects()) - objects < 100
    assert [s["job"] for s in house.shown()] == ["999"]


@pytest.mark.parametrize("profile", PROFILES)
def test_whose_gpu_it_is_stands_on_every_page(profile: Profile) -> None:
    """Alerts name the job of a GPU by it, also where only the smallest set of series is wanted."""
    house = House(Answers(job("71")))
    house.page.configure(profile, {"nvml": 1.0, "jobs": 1.0}, None)
    house.tick()
    assert [s["job"] for s in house.shown()] == ["71"]
