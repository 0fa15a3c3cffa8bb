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
from pipeline.store.files.wal import segments
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


@pytest.mark.slow
def test_a_damaged_segment_is_counted_logged_and_dated(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What the sealing child could not read is in the agent's numbers and log; the rest is stored,
    and the segment is kept.
    """
    before = House(tmp_path)
    before.seconds(9)
    before.keeper._wal.close()
    (segment,) = segments(tmp_path / "wal")
    raw = bytearray(segment.read_bytes())
    raw[len(raw) * 9 // 10] ^= 8  # the definitions of all kinds come first
    segment.write_bytes(raw)
    house = House(tmp_path, seal_in_child(tmp_path, "c1"))
    house.seq = 100
    house.seconds(1)
    house.keeper.close(60)
    assert len([o.seq for o, _ in replay(tmp_path)]) == 9
    value = house.metrics.value
    assert (value(agent.STORE_DAMAGED_RECORDS), value(agent.STORE_QUARANTINED)) == (1, 1)
    assert (value(agent.STORE_DAMAGED_BYTES) or 0) > 0
    assert value(agent.STORE_LAST_DAMAGE) == house.clock.time_ns() / 1e9
    assert value(agent.STORE_UNENDED) == 0
    assert caplog.text.count("damaged segment of the log moved to quarantine") == 1
    assert (tmp_path / "quarantine/wal" / segment.name).read_bytes() == raw


@pytest.mark.slow
def test_a_killed_agents_segment_is_no_damage(tmp_path: Path) -> None:
    """It has no end: that is counted apart, and nothing goes into quarantine."""
    before = House(tmp_path)
    before.seconds(3)
    house = House(tmp_path, seal_in_child(tmp_path, "c1"))
    house.seq = 100
    house.seconds(1)
    house.keeper.close(60)
    value = house.metrics.value
    assert (value(agent.STORE_UNENDED), value(agent.STORE_QUARANTINED)) == (1, 0)
    assert value(agent.STORE_LAST_DAMAGE) is None


def test_what_is_no_segment_starts_no_sealing(tmp_path: Path) -> None:
    """A folder with the name of one: it is left alone, and not tried again every second."""
    (tmp_path / "wal" / "boot-1-0000000000000001.wal").mkdir(parents=True)
    house = House(tmp_path)
    house.seconds(5)
    assert house.sealed == []


def test_an_observation_that_the_disk_refuses_is_counted(tmp_path: Path) -> None:
    """And the reason is known until the next one is taken."""
    house = House(tmp_path)
    (tmp_path / "wal").write_text("in the way")
    with pytest.raises(OSError, match="wal"):
        house.seconds(1)
    assert house.metrics.value(agent.STORE_LOST) == 1
    assert "wal" in house.keeper.refused
    (tmp_path / "wal").unlink()
    house.seconds(1)
    assert house.keeper.refused == ""
