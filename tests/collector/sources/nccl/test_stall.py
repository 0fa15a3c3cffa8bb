"""From a stalled job to the rank that is its root cause: simulated node, real source, real client,
all detectors, on a clock that jumps.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from collector.sources.nccl.source import NcclSource
from collector.sources.nccl.suspicion import Suspicions
from detectors.paging import judge_in_service
from pipeline.finding import Finding
from pipeline.observation import Observation, Reading
from pipeline.selfmetrics import SelfMetrics
from simulator.frames import FrameRenderer
from simulator.injection import inject
from simulator.rendering import Rendering
from tests.fakes import FakeClock

HOST = "n1"
WARM_UP_S, AT_WORK_S = 900.0, 120
YOUNG_S = 120.0  # with the time at work: the youngest that RAS may be asked of is 120 s old
SOON_S = 90  # from the fault to the finding, where there is hard evidence
EVERY_S = 5  # seconds between two reads of the source


@dataclass
class Agent:
    """What an agent does once a second, without its processes."""

    rendering: Rendering
    clock: FakeClock
    metrics: SelfMetrics = field(default_factory=SelfMetrics)
    seconds: int = 0

    def __post_init__(self) -> None:
        self.board = Suspicions()
        self.gpus = FrameRenderer(self.rendering.node, HOST)
        proc = self.rendering.directory / "proc"
        self.source = NcclSource(proc, HOST, self.clock, self.metrics, suspicions=self.board)
        self.judge = judge_in_service(
            self.metrics, self.clock, {"nvml": 1.0, "nccl": float(EVERY_S)}
        )

    def live(self, seconds: int) -> list[Finding]:
        """Findings about stalled jobs in these seconds."""
        findings: list[Finding] = []
        for _ in range(seconds):
            self.seconds += 1
            self.clock.advance(1)
            self.rendering.step(1)
            findings += self._take(
                "nvml", self.gpus.nvml(self.clock.time_ns(), self.clock.monotonic_ns())
            )
            if self.seconds % EVERY_S == 0:
                findings += self._take("nccl", self.source.read())
        return [finding for finding in findings if finding.detector == "nccl" and finding.active]

    def _take(self, source: str, reading: Reading) -> tuple[Finding, ...]:
        now = (self.clock.time_ns(), self.clock.monotonic_ns())
        seen = Observation(
            source,
            HOST,
            "boot",
            self.seconds,
            *now,
            0,
            reading.frames,
            reading.events,
            reading.unread,
        )
        judged = self.judge.judge(seen)
        self.board.write(*judged)
        return judged.findings


@pytest.fixture
def agent(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Agent]:
    """A node whose job has been at work for a while, and an agent that has watched it."""
    clock = FakeClock(wall_ns=time.time_ns(), mono_ns=5000 * 10**9)
    rendering = Rendering(tmp_path, "hgx-h100", seed=1, clock=clock, serve=True)
    rendering.step(getattr(request, "param", WARM_UP_S))
    made = Agent(rendering, clock)
    assert made.live(AT_WORK_S) == []
    yield made
    made.source.close()
    rendering.close()


@pytest.mark.slow
@pytest.mark.parametrize(("how", "gpu"), [("late", 5), ("stopped", 2), ("mismatched", 7)])
def test_a_rank_that_others_wait_for_is_named(agent: Agent, how: str, gpu: int) -> None:
    """Its GPU, within a minute and a half, and no other."""
    node = agent.rendering.node
    inject(node, f"nccl_stall@gpu{gpu}:how={how}")
    findings = agent.live(SOON_S)
    assert {finding.device.id for finding in findings} == {node.uuids[gpu]}


@pytest.mark.slow
@pytest.mark.parametrize("agent", [YOUNG_S], indirect=True, ids=["job of four minutes"])
@pytest.mark.parametrize(
    ("how", "severity"), [("stopped", "page"), ("mismatched", "page"), ("late", "ticket")]
)
def test_a_stall_of_a_young_job_is_reported_as_soon_as_it_is_certain(
    agent: Agent, how: str, severity: str
) -> None:
    """Telemetry alone would wait for twenty minutes: what is usual for the job is not known yet. A
    rank that has not come may be writing a checkpoint, and is a ticket.
    """
    node = agent.rendering.node
    inject(node, f"nccl_stall@gpu3:how={how}")
    findings = agent.live(SOON_S)
    assert {(f.device.id, f.severity) for f in findings} == {(node.uuids[3], severity)}
    assert f"GPU 3 ({node.uuids[3]})" in findings[0].summary


@pytest.mark.slow
def test_what_is_in_flight_names_no_gpu(agent: Agent) -> None:
    """All ranks have come: RAS does not show the root cause."""
    inject(agent.rendering.node, "nccl_stall@gpu1:how=in_flight")
    assert not [finding for finding in agent.live(2 * SOON_S) if finding.device.kind == "gpu"]


@pytest.mark.slow
def test_a_stall_that_ends_is_over(agent: Agent) -> None:
    """The job goes on, and nothing is open any more."""
    inject(agent.rendering.node, "nccl_stall@gpu5:how=late,lasts=100")
    assert agent.live(SOON_S)
    agent.live(120)
    assert agent.board.since_ns(agent.clock.monotonic_ns()) is None
