"""The agent's store: when it seals, that a page leaves at once, that a failing seal is tried again,
that a real child does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from pipeline.catalog import agent
from pipeline.finding import Finding
from pipeline.replay import replay
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.keep.writer import StoreWriter, seal_in_child
from tests.fakes import FakeClock, gpu, gpu_frame, observed
from tests.wait import PATIENCE_S

PAGE = Finding("xid", gpu(0), "xid", "onset", "page", 1, 1, "Lost.", "RESTART_BM")


class House:
    """A keeper whose sealing is remembered, or done by ``seal``."""

    def __init__(self, root: Path, seal: object = None) -> None:
        self.clock, self.metrics, self.root, self.seq = FakeClock(), SelfMetrics(), root, 0
        self.sealed: list[list[str]] = []
        self.error: Exception | None = None
        self.keeper = StoreWriter(root, "n1", self.clock, self.metrics, seal=seal or self.remember)  # type: ignore[arg-type]

    def remember(self, paths: Sequence[Path]) -> None:
        if self.error is not None:
            raise self.error
        self.sealed.append([p.name for p in paths])
        for path in paths:
            path.unlink()

    def seconds(self, n: int, *findings: Finding) -> None:
        for i in range(n):
            self.clock.advance(1.0)
            self.keeper.write(
                observed(
                    self.clock, gpu_frame(self.clock, {"power_milliwatts": self.seq}), seq=self.seq
                ),
                findings if not i else (),
            )
            self.seq += 1
            if self.keeper._thread is not None:
                self.keeper._thread.join(PATIENCE_S)


@pytest.mark.slow
def test_a_quiet_hour_is_sealed_about_every_quarter_of_an_hour(tmp_path: Path) -> None:
    """Four seals an hour, a little more often by the host's share of jitter."""
    house = House(tmp_path)
    house.seconds(3700)
    assert len(house.sealed) == 4


def test_a_page_is_sealed_within_ten_seconds(tmp_path: Path) -> None:
    """The evidence leaves a node that is about to be rebooted."""
    house = House(tmp_path)
    house.seconds(10)
    assert not house.sealed
    house.seconds(10, PAGE)
    assert len(house.sealed) == 1


def test_a_failing_seal_is_counted_and_tried_again_a_minute_later(tmp_path: Path) -> None:
    """Nothing is lost meanwhile: the segments wait."""
    house = House(tmp_path)
    house.error = RuntimeError("killed")
    house.seconds(30, PAGE)
    assert house.metrics.value(agent.STORE_SEALS, "failed") == 1
    house.error = None
    house.seconds(60)
    assert house.metrics.value(agent.STORE_SEALS, "ok") == 1
    assert len(house.sealed[0]) == 1


@pytest.mark.slow
def test_a_real_child_seals_and_what_it_sealed_can_be_replayed(tmp_path: Path) -> None:
    """The short-lived process of the agent, end to end."""
    house = House(tmp_path, seal_in_child(tmp_path, "c1"))
    house.seconds(5)
    house.keeper.close(60)
    assert [o.seq for o, _ in replay(tmp_path)] == [0, 1, 2, 3, 4]
    assert house.metrics.value(agent.STORE_SEALS, "ok") == 1


def test_segments_of_a_killed_agent_are_sealed_at_the_next_start(tmp_path: Path) -> None:
    """A crash leaves a segment; the first write after the restart seals it."""
    first = House(tmp_path)
    first.seconds(3)
    second = House(tmp_path)
    second.seq = 100
    second.seconds(1)
    assert len(second.sealed) == 1
