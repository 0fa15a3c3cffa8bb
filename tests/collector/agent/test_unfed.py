"""What is open when a source is switched off."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from collector.agent.judge import judge_of
from collector.agent.snapshots import Snapshots
from collector.config.settings import Config, Sources
from pipeline.frame import Device, frame_of
from pipeline.judge import Judge
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import FakeClock, gpu_frame, observed
from tests.wait import until

PORT = Device("n1", "ib_port", "0xb8599f0300a1b2c4", {"device": "mlx5_0", "port": "1"})
ACTIVE, DOWN = ({"state": state, "expected": 1} for state in (4, 1))
EVERY_S = 5.0


def see(judge: Judge, clock: FakeClock, values: Mapping[str, int], times: int) -> None:
    """The port, so often."""
    for _ in range(times):
        frame = frame_of("ib_port", [(PORT, values)], clock.time_ns(), clock.monotonic_ns())
        judge.judge(observed(clock, frame, source="infiniband"))
        clock.advance(EVERY_S)


def kept(root: Path, clock: FakeClock) -> Snapshots:
    """The memory on disk of an agent of one detector, which has found a port that is down."""
    judge = judge_of(Config(), SelfMetrics(), clock, only=["ib_link"])
    see(judge, clock, ACTIVE, 30)
    see(judge, clock, DOWN, 90)
    snapshots = Snapshots(root, "boot-1", clock, SelfMetrics())
    snapshots.follow(judge)
    snapshots.write(observed(clock, gpu_frame(clock, {})))
    until(lambda: not snapshots.busy, what="the snapshot to be written")
    return snapshots


@pytest.mark.slow
@pytest.mark.parametrize("enabled", [True, False])
def test_what_is_open_about_a_source_that_is_switched_off_ends(
    tmp_path: Path, *, enabled: bool
) -> None:
    """Nothing that is still read could ever end it; should the source be switched on again, it is
    found again.
    """
    clock = FakeClock()
    snapshots = kept(tmp_path, clock)
    infiniband = msgspec.structs.replace(Sources().infiniband, enabled=enabled)
    judge = judge_of(Config(), SelfMetrics(), clock, only=["ib_link"])
    snapshots.restore(judge, msgspec.structs.replace(Sources(), infiniband=infiniband))
    assert [finding.fault for finding in judge.standing()] == ["ib/link_down"]
    judge.judge(observed(clock, gpu_frame(clock, {})))
    assert [finding.fault for finding in judge.standing()] == ["ib/link_down"] * enabled
    see(judge, clock, ACTIVE, 30)
    see(judge, clock, DOWN, 140)
    assert [finding.fault for finding in judge.standing()] == ["ib/link_down"]
