"""Real stalls of a multi-process PyTorch job on CPUs (gloo), localised from its own Flight Recorder
through the agent's NCCL source.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.sources.nccl.flight_recorder.http import fetch
from collector.sources.nccl.source import NcclSource
from collector.sources.nccl.suspicion import Suspicions
from detectors.nccl.detector import Nccl
from pipeline.finding import Finding
from pipeline.frame import Device
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import FakeClock
from tests.sources import ROOT
from tests.torch.job import TrainingJob

pytestmark = pytest.mark.torch
CULPRIT = 2
RECORDED = ROOT / "tests/data/torch_stall"


@pytest.fixture
def stalled(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[TrainingJob]:
    """A job that stands still for the reason that the test names."""
    job = TrainingJob(tmp_path, request.param, CULPRIT)
    try:
        job.stand_still()
        yield job
    finally:
        job.kill()


class Agent:
    """The agent's NCCL source and detector, on a clock of their own."""

    def __init__(self, job: TrainingJob) -> None:
        self.clock, self.suspicions = FakeClock(), Suspicions()
        self.source = NcclSource(
            job.proc, "n1", self.clock, SelfMetrics(), suspicions=self.suspicions
        )
        self.detector, self.seq = Nccl(), 0

    def suspect(self) -> None:
        """The detector of hangs says that a job stands still."""
        hang = Finding(
            "hang",
            Device("", "job", "stall"),
            "hang/unknown",
            "onset",
            "record",
            self.clock.time_ns(),
            self.clock.time_ns(),
            "It stands still.",
        )
        self.suspicions.write(self._observation(), [hang])

    def findings(self, seconds: int) -> list[Finding]:
        """What is found meanwhile."""
        said: list[Finding] = []
        for _ in range(seconds):
            self.clock.advance(1)
            said += self.detector.update(self._observation())
        return said

    def _observation(self) -> Observation:
        reading = self.source.read()
        self.seq += 1
        at = (self.clock.time_ns(), self.clock.monotonic_ns())
        return Observation(
            "nccl", "n1", "b", self.seq, *at, 0, reading.frames, reading.events, reading.unread
        )


@pytest.mark.parametrize(
    ("stalled", "fault"),
    [("sleep", "hang/host_hang"), ("other", "hang/order_mismatch")],
    indirect=["stalled"],
)
def test_the_rank_that_a_real_job_waits_for_is_named(stalled: TrainingJob, fault: str) -> None:
    """Four ranks in pairs and a world; one of them is to blame, its partner in the pair is as far
    behind in the world and is a victim.
    """
    agent = Agent(stalled)
    agent.suspect()
    pages = [f for f in agent.findings(60) if f.severity == "page"]
    assert [(f.fault, f.device.kind, f.device.id) for f in pages] == [
        (fault, "rank", f"torchrun:stall/{CULPRIT}")
    ]
    if os.environ.get("TOCSIN_UPDATE_GOLDEN") == "1":
        record(stalled, RECORDED / fault.rpartition("/")[2])


def record(job: TrainingJob, folder: Path) -> None:
    """Keep the dumps for the tests that run without PyTorch."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(job.world):
        (folder / f"rank{rank}.json").write_bytes(
            fetch(str(job.folder / f"{rank}.sock"), Path("/"), os.getuid())
        )


@pytest.mark.parametrize("stalled", ["sleep"], indirect=True)
def test_nobody_is_asked_while_nothing_is_suspected(stalled: TrainingJob) -> None:
    """The job is left alone, and nothing is said of it."""
    assert Agent(stalled).findings(60) == []
