"""A simulated node's job is found by the real source, and its RAS says
what the injected fault did.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from collector.sources.nccl.source import NcclSource
from collector.sources.nccl.suspicion import Suspicions
from pipeline.finding import Finding
from pipeline.frame import Device
from pipeline.nccl.member import Member
from pipeline.nccl.report import Report
from pipeline.nccl.wire import reports_in
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics
from simulator.injection import inject
from simulator.rendering import Rendering
from tests.fakes import FakeClock

pytestmark = pytest.mark.slow  # each makes a simulated node or a store

WARM_UP_S = 900.0  # the job is well under way


@dataclass
class Stage:
    """A simulated node, and the source that reads it."""

    rendering: Rendering
    source: NcclSource
    clock: FakeClock
    board: Suspicions

    def live(self, seconds: float) -> None:
        """Let the node go on."""
        self.clock.advance(seconds)
        self.rendering.step(seconds)

    def report(self) -> Report:
        """What the job says on suspicion."""
        finding = Finding(
            "hang", Device("n1", "node", "n1"), "hang/waits", "onset", "record", 5000, 5000, "words"
        )
        self.board.write(
            Observation("nvml", "n1", "b", 0, 0, self.clock.monotonic_ns(), 0), [finding]
        )
        (reported,) = [report for report, _ in reports_in(self.source.read().events)]
        return reported


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A node whose job has trained for minutes."""
    clock = FakeClock(wall_ns=time.time_ns(), mono_ns=5000 * 10**9)
    rendering = Rendering(tmp_path, "hgx-h100", seed=1, clock=clock, serve=True)
    board = Suspicions()
    source = NcclSource(tmp_path / "proc", "n1", clock, SelfMetrics(), suspicions=board)
    made = Stage(rendering, source, clock, board)
    rendering.step(WARM_UP_S)
    source.read()
    yield made
    source.close()
    rendering.close()


def ranks(report: Report) -> dict[int, Member]:
    """Members of the one communicator, by GPU."""
    assert report.trusted
    (found,) = report.communicators
    return {m.gpu: m for m in found.members}


def test_the_job_is_found_with_its_gpus(stage: Stage) -> None:
    """Eight processes of one job, each with its GPU, and a version that may be asked."""
    frame = stage.source.read().frames[0]
    assert (frame.value("processes", 0), frame.value("ras_usable", 0)) == (8, 1)


def test_a_healthy_job_moves(stage: Stage) -> None:
    """Its counts rise, alike on all ranks."""
    first = {dict(m.launched)["AllReduce"] for m in ranks(stage.report()).values()}
    stage.live(60)
    second = {dict(m.launched)["AllReduce"] for m in ranks(stage.report()).values()}
    assert len(first) == len(second) == 1
    assert min(second) > max(first)


def test_a_late_rank_is_behind_and_stays_there(stage: Stage) -> None:
    """The others have entered one operation more, and nothing moves."""
    inject(stage.rendering.node, "nccl_stall@gpu5:how=late")
    stage.live(30)
    first = {gpu: dict(m.launched)["AllReduce"] for gpu, m in ranks(stage.report()).items()}
    stage.live(30)
    assert {gpu: dict(m.launched)["AllReduce"] for gpu, m in ranks(stage.report()).items()} == first
    assert {gpu for gpu, count in first.items() if count == min(first.values())} == {5}


def test_a_stopped_rank_is_missing_and_then_dead(stage: Stage) -> None:
    """For a minute it does not answer, then it is dead."""
    inject(stage.rendering.node, "nccl_stall@gpu2")
    stage.live(30)
    assert {gpu: m.state for gpu, m in ranks(stage.report()).items() if m.gone} == {
        2: "unresponsive"
    }
    stage.live(60)
    assert {gpu: m.state for gpu, m in ranks(stage.report()).items() if m.gone} == {2: "dead"}


def test_a_rank_that_calls_something_else_cannot_be_compared(stage: Stage) -> None:
    """It has one AllGather more, the others one AllReduce."""
    inject(stage.rendering.node, "nccl_stall@gpu7:how=mismatched")
    stage.live(30)
    found = {gpu: dict(m.launched) for gpu, m in ranks(stage.report()).items()}
    assert found[7]["AllGather"] == found[0]["AllGather"] + 1
    assert found[7]["AllReduce"] == found[0]["AllReduce"] - 1


def test_a_server_that_misbehaves_is_no_source(stage: Stage) -> None:
    """A communicator that is half set up: the report is told, and not believed."""
    inject(stage.rendering.node, "ras_manner:manner=phantom,lasts=30")
    stage.live(5)
    assert not stage.report().trusted
    stage.live(60)
    assert stage.report().trusted


def test_what_is_in_flight_looks_well(stage: Stage) -> None:
    """All ranks have launched the same: RAS alone names nobody."""
    inject(stage.rendering.node, "nccl_stall@gpu1:how=in_flight")
    stage.live(30)
    assert len({m.launched for m in ranks(stage.report()).values()}) == 1
