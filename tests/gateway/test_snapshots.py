"""A gateway that was started again says what one that never stopped says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from collector.agent.judge import judge_of
from collector.config.settings import Config
from gateway.explains import Explanations
from gateway.fleet import Fleet, JudgedSecond
from gateway.snapshots import FILE, Snapshots
from pipeline.bus import subjects
from pipeline.catalog import agent
from pipeline.clock import SECOND_NS
from pipeline.observation import Event
from pipeline.plain import plain, plain_event
from pipeline.selfmetrics import SelfMetrics
from tests.collector.replaying.kept import judge
from tests.fakes import FakeClock
from tests.gateway.agents import PERIOD_S, Agents
from tests.gateway.cluster import SimulatedCluster

STREAM = "2027-01-15T08:00:00+00:00"
Message = tuple[int, str, bytes]


@cache
def messages() -> tuple[Message, ...]:
    """What the stream holds."""
    return tuple(Agents(5).batches())


class Life:
    """A gateway from its start to its end, without the bus and the pages."""

    def __init__(self, root: Path, clock: FakeClock | None = None, cluster: str = "c1") -> None:
        self.metrics, self.judge = SelfMetrics(), judge()
        self.fleet = Fleet(self.judge, self.metrics, PERIOD_S * SECOND_NS)
        self.snapshots = Snapshots(
            root, cluster, clock or FakeClock(), self.metrics,
            judge=self.judge, fleet=self.fleet, others=(Explanations(),),
        )  # fmt: skip

    def read(self, some: Iterable[Message]) -> list[Any]:
        """What it finds, and the events of its arrival cut."""
        found: list[Any] = []
        for at_ns, host, payload in some:
            found += said(self.fleet.judged(at_ns))
            assert self.fleet.take(subjects.token(host), payload, at_ns) == ""
        return found

    def end(self) -> list[Any]:
        """What it finds in all that waits."""
        return said(self.fleet.judged(messages()[-1][0] + 60 * SECOND_NS))

    def outcomes(self) -> set[str]:
        """How memories were taken back."""
        return {labels[1] for labels, _ in dict(self.metrics.series())[agent.RESTORES]}


def said(seconds: Iterable[JudgedSecond]) -> list[Any]:
    """Everything, as it is compared."""
    return [
        [
            second.second,
            [[[*map(plain, one.findings)], [*map(plain, one.incidents)]] for one in second.judged],
            [*map(plain_event, second.events)],
        ]
        for second in seconds
    ]


@pytest.mark.slow
def test_a_start_from_a_snapshot_finds_what_the_gateway_would_have_found(tmp_path: Path) -> None:
    """Word by word, wherever it stopped: batches are lost and late, clocks wrong, agents come and
    go, seconds are open, incidents too.
    """
    stops = [len(messages()) * part // 5 for part in range(1, 5)]
    steady, life = Life(tmp_path / "steady"), Life(tmp_path)
    begin, found = 0, 0
    for stop in (*stops, len(messages())):
        some = messages()[begin:stop]
        expected = steady.read(some)
        assert life.read(some) == expected
        found += sum(bool(findings) for _, each, _ in expected for findings, _ in each)
        life.snapshots.close(STREAM, stop)
        life, begin = Life(tmp_path), stop
        assert life.snapshots.resume(STREAM) == stop + 1
        assert life.outcomes() == {"restored"}
        assert [*map(plain, life.judge.standing())] == [*map(plain, steady.judge.standing())]
    assert life.end() == steady.end()
    assert found > 10


def kept(root: Path) -> Life:
    """A life that left a snapshot."""
    life = Life(root)
    life.read(messages()[:6])
    life.snapshots.close(STREAM, 6)
    return life


def test_the_first_start_reads_the_hour_without_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No snapshot is no trouble."""
    life = Life(tmp_path)
    assert life.snapshots.resume(STREAM) == 0
    assert life.outcomes() == {"none"}
    assert caplog.records == []


def cut(file: Path) -> None:
    """Half of it is there."""
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])


@pytest.mark.parametrize("damage", [cut, lambda file: file.write_bytes(b"")])
def test_a_damaged_snapshot_is_named_and_left_out(
    damage: Callable[[Path], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Torn by a full disk, or empty."""
    kept(tmp_path)
    damage(tmp_path / FILE)
    life = Life(tmp_path)
    assert life.snapshots.resume(STREAM) == 0
    assert life.outcomes() == {"corrupt"}
    assert f"snapshot {tmp_path / FILE} is corrupt" in caplog.text
    assert not life.fleet.arrivals.hosts


@pytest.mark.parametrize(
    ("of", "hours", "says"),
    [
        (("2027-02-01T00:00:00+00:00", "c1"), 0, "foreign: of the stream made at 2027-01-15"),
        ((STREAM, "c2"), 0, "of cluster 'c1'"),
        ((STREAM, "c1"), 25, "stale: 25 hours old"),
    ],
)
def test_a_foreign_snapshot_is_named_and_left_out(
    of: tuple[str, str], hours: float, says: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a stream that was made again, of another cluster, too old: nothing of it is used."""
    kept(tmp_path)
    clock = FakeClock()
    clock.advance(hours * 3600)
    life = Life(tmp_path, clock, of[1])
    assert life.snapshots.resume(of[0]) == 0
    assert says in caplog.text
    assert str(tmp_path / FILE) in caplog.text
    assert not life.fleet.arrivals.hosts


def test_another_version_of_a_part_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of the hosts: all of it, as the position is worth nothing without them. Of a detector: that
    detector's, which is named.
    """
    life = kept(tmp_path)
    detector = type(life.judge.memories[1])
    monkeypatch.setattr(detector, "version", 99, raising=False)
    other = Life(tmp_path)
    assert other.snapshots.resume(STREAM) == 7
    assert other.outcomes() == {"restored", "version"}
    monkeypatch.setattr(Fleet, "version", 99)
    assert Life(tmp_path).snapshots.resume(STREAM) == 0
    assert "of another version" in caplog.text


def test_a_disk_that_refuses_is_reported_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The gateway goes on without."""
    (tmp_path / "state").write_text("in the way")
    life = kept(tmp_path)
    assert life.metrics.value(agent.SNAPSHOTS, "failed") == 1
    assert "saving a snapshot fails" in caplog.text
    (tmp_path / "state").unlink()
    life.snapshots.close(STREAM, 6)
    assert life.metrics.value(agent.SNAPSHOTS, "ok") == 1


def test_snapshots_are_a_minute_apart_and_cost_little(tmp_path: Path) -> None:
    """The first a minute after the start; none before a message came."""
    clock = FakeClock()
    life = Life(tmp_path, clock)
    life.read(messages()[:6])
    for seconds, position, wanted in ((59, 6, 0), (1, 0, 0), (0, 6, 1), (59, 6, 1), (1, 6, 2)):
        clock.advance(seconds)
        life.snapshots.take(STREAM, position)
        if life.snapshots._writing is not None:
            life.snapshots._writing.join()
        assert life.metrics.value(agent.SNAPSHOTS, "ok") == wanted


def test_the_cluster_as_it_is_shown_is_kept() -> None:
    """Jobs by events and devices out of service; readings come again within seconds."""
    before, after = SimulatedCluster(2), SimulatedCluster(2)
    gpu = before.gpu(1, 3)
    held = {"job": "71", "gpus": gpu.id}
    out = Event(1, 1, gpu, "maintenance_started")
    before.take(events=[out, Event(1, 1, before.node(1), "job_started", held)])
    after.model.restore(before.model.state())
    assert [job.id for job in after.model.snapshot().jobs] == ["71"]
    assert (after.model.snapshot().levels.gpus == before.model.snapshot().levels.gpus).all()


def test_every_detector_can_be_kept() -> None:
    """A gateway's judge has none that forgets at a start."""
    made = judge_of(Config(), SelfMetrics(), FakeClock())
    assert [m.name for m in made.memories if not hasattr(m, "restore")] == []
