"""What a scrape says of jobs that stand still or are slow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.clock import SECOND_NS
from pipeline.exposition import Exposition
from pipeline.finding import Finding
from pipeline.frame import Device
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import FakeClock, observed
from tests.pipeline.exposition.pages import frame, samples


class House:
    """A page that has seen a job of this node, and takes findings about it."""

    def __init__(self, *jobs: str) -> None:
        self.clock = FakeClock()
        self.page = Exposition(SelfMetrics(), clock=self.clock, periods={"nvml": 60.0})
        self.page.write(
            observed(
                self.clock,
                frame(self.clock, "job", [(Device("n1", "job", job), {}) for job in jobs]),
            ),
            (),
        )

    def found(self, fault: str, job: str = "71", gpu: int = 0, ago_s: int = 0) -> Finding:
        """A finding about a GPU of the job, that began so long ago."""
        at = self.clock.time_ns()
        device = Device("n1", "gpu", f"GPU-{gpu}", {"job": job})
        finding = Finding("nccl", device, fault, "onset", "record", at - ago_s * SECOND_NS, at, "x")
        self.page.write(observed(self.clock), [finding])
        return finding

    def states(self) -> dict[str, str]:
        """By job."""
        return {
            dict(labels)["job"]: dict(labels)["state"]
            for labels in samples(self.page, "tocsin_nccl_job_state")
        }

    def verdicts(self) -> set[tuple[str, str]]:
        """Job and class of all verdicts that stand."""
        return {
            (dict(labels)["job"], dict(labels)["class"])
            for labels in samples(self.page, "tocsin_nccl_verdict")
        }


def test_a_job_that_nothing_is_said_of_runs() -> None:
    """It has a state and no stall, so that an alert on the series can tell silence from health."""
    house = House("71")
    assert (house.states(), house.verdicts()) == ({"71": "running"}, set())
    assert list(samples(house.page, "tocsin_nccl_stall_seconds").values()) == [0.0]


def test_no_job_no_series() -> None:
    """A node without jobs says nothing of any."""
    assert House().states() == {}


@pytest.mark.parametrize(
    ("fault", "state", "verdict"),
    [
        ("hang/host_hang", "stalled", "host_hang"),
        ("hang/rank_stuck", "stalled", "rank_stuck"),
        ("hang/unknown", "suspect", "unknown"),
        ("straggler/slow_straggler", "slow", "slow_straggler"),
        ("hang/crawl", "crawl", "crawl"),
    ],
)
def test_a_verdict_gives_the_job_its_state(fault: str, state: str, verdict: str) -> None:
    """By the class of the fault, whatever its severity: in shadow mode all are records."""
    house = House("71")
    house.found(fault)
    assert (house.states(), house.verdicts()) == ({"71": state}, {("71", verdict)})


def test_a_job_that_crawls_is_not_stalled() -> None:
    """It goes on: its state says so, and no time of a stall runs."""
    house = House("71")
    house.found("hang/crawl")
    assert list(samples(house.page, "tocsin_nccl_stall_seconds").values()) == [0.0]
    house.found("hang/rank_busy", gpu=1)
    assert house.states() == {"71": "stalled"}


def test_the_gravest_of_several_verdicts_is_the_state() -> None:
    """Each class has its series."""
    house = House("71")
    house.found("straggler/slow_network")
    house.found("hang/unknown", gpu=1)
    house.found("hang/in_flight", gpu=2)
    assert house.states() == {"71": "stalled"}
    assert house.verdicts() == {("71", "slow_network"), ("71", "unknown"), ("71", "in_flight")}


def test_stall_seconds_count_from_the_oldest_stall() -> None:
    """They go on from scrape to scrape; being slow is no stall."""
    house = House("71")
    house.found("hang/host_hang", ago_s=100)
    house.found("hang/process_lost", gpu=1, ago_s=40)
    house.found("straggler/slow_straggler", gpu=2, ago_s=900)
    house.clock.advance(20)
    assert list(samples(house.page, "tocsin_nccl_stall_seconds", job="71").values()) == [
        pytest.approx(120.0)
    ]


def test_a_cleared_verdict_leaves_no_series() -> None:
    """The job runs again."""
    house = House("71")
    house.page.write(
        observed(house.clock), [replace(house.found("hang/host_hang"), phase="cleared")]
    )
    assert (house.states(), house.verdicts()) == ({"71": "running"}, set())


def test_a_step_of_slurm_is_its_job() -> None:
    """Detectors say 71, the source 71.0: one job, under the name of its other series."""
    house = House("71.0", "8.0")
    house.found("hang/host_hang", job="71")
    assert house.states() == {"71.0": "stalled", "8.0": "running"}


def test_other_faults_of_a_jobs_device_are_no_verdict_on_the_job() -> None:
    """An XID of a GPU that a stall named before is about the GPU."""
    house = House("71")
    house.found("xid/79")
    assert (house.states(), house.verdicts()) == ({"71": "running"}, set())


def test_jobs_are_capped_and_those_with_a_verdict_are_shown() -> None:
    """Whoever sets a job's name in the environment of its processes makes no
    more than 128 of each series.
    """
    house = House(*(f"job{n}" for n in range(200)))
    house.found("hang/host_hang", job="job199")
    assert len(house.states()) == 128
    assert house.states()["job199"] == "stalled"
