"""The judge's memory on disk: when it is kept, what of it is taken back,
and what when it cannot be.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.agent.snapshots import FILE, KEPT, Snapshots
from detectors.incidents.fusion import Incidents
from detectors.kit.snapshot import dump, facts_in
from pipeline.catalog import agent
from pipeline.finding import Incident
from pipeline.judge import Judge
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.wal import Wal
from tests.detectors.hot import Hot
from tests.fakes import START_NS, FakeClock, gpu, gpu_frame
from tests.wait import until

DAY_S = 86400.0


class Life:
    """One life of an agent that looks at the temperature of a GPU each second: judge, log and
    snapshots, as the engine calls them.
    """

    def __init__(self, root: Path, clock: FakeClock, *, boot: str = "b1", seq: int = 0) -> None:
        self.root, self.clock, self.metrics, self.boot, self.seq = (
            root,
            clock,
            SelfMetrics(),
            boot,
            seq,
        )
        self.judge = Judge(
            [Hot()], self.metrics, clock, periods_s={"nvml": 1.0}, fusion=Incidents()
        )
        self.incidents: list[Incident] = []
        self.snapshots = Snapshots(root, boot, clock, self.metrics)
        self.wal = Wal(root / "wal", clock, self.metrics)
        self.cold = self.snapshots.restore(self.judge)
        self.snapshots.follow(self.judge)

    def see(self, *temperatures: float, incidents: tuple[Incident, ...] = ()) -> list[str]:
        """Phases of what is found."""
        phases: list[str] = []
        for value in temperatures:
            frame = gpu_frame(self.clock, {"temperature_celsius": value})
            at = (self.clock.time_ns(), self.clock.monotonic_ns(), 0)
            judged = self.judge.judge(Observation("nvml", "n1", self.boot, self.seq, *at, (frame,)))
            self._show(judged._replace(incidents=(*judged.incidents, *incidents)))
            phases += [finding.phase for finding in judged.findings]
            self.seq += 1
            self.clock.advance(1)
        return phases

    def _show(self, judged: JudgedObservation) -> None:
        self.incidents += judged.incidents
        self.wal.write(*judged)
        self.snapshots.write(*judged)
        until(lambda: not self.snapshots.busy, what="the snapshot to be written")

    def kept(self) -> int:
        """Number of the observation after which the memory was last kept."""
        return int(facts_in((self.root / "state" / FILE).read_bytes())["seq"])

    def outcomes(self) -> set[str]:
        """How memories were taken back."""
        return {labels[1] for labels, _ in dict(self.metrics.series())[agent.RESTORES]}


@pytest.fixture
def clock() -> FakeClock:
    """It stands still."""
    return FakeClock()


@pytest.fixture
def first(tmp_path: Path, clock: FakeClock) -> Iterator[Life]:
    """The first life: there is nothing to remember."""
    life = Life(tmp_path, clock)
    yield life
    life.wal.close()


def test_the_first_life_begins_cold_without_a_word(
    first: Life, caplog: pytest.LogCaptureFixture
) -> None:
    """No snapshot is no trouble."""
    assert first.cold == ("judge", "hot", "incidents")
    assert first.outcomes() == {"none"}
    assert caplog.records == []


@pytest.mark.slow
def test_the_memory_is_kept_at_the_first_observation_and_each_minute(first: Life) -> None:
    """After observation 0, 60 and 120."""
    kept = []
    for _ in range(125):
        first.see(50)
        kept.append(first.kept())
    assert sorted(set(kept)) == [0, 60, 120]


def test_soon_after_an_incident_changed_it_is_kept(first: Life) -> None:
    """Not a minute later: a crash should not tell it twice.

    Not with each of many at once either.
    """
    reported = (Incident("i", gpu(0), "thermal", "page", "NONE", START_NS, (), "Hot."),)
    first.see(50, incidents=reported)
    kept = []
    for _ in range(10):
        first.see(50, incidents=reported)
        kept.append(first.kept())
    assert sorted(set(kept)) == [0, 5, 10]


def test_a_killed_agent_goes_on_as_if_it_had_not_stopped(first: Life, clock: FakeClock) -> None:
    """Two hot readings after the snapshot are in the log only; the third, of
    the next life, is the page.
    """
    first.see(50, 90, 90)
    assert first.kept() == 0
    second = Life(first.root, clock, seq=10)
    assert second.cold == ()
    assert second.outcomes() == {"restored"}
    assert second.see(90) == ["onset"]


def test_what_stood_is_not_told_again(first: Life, clock: FakeClock) -> None:
    """It is known to stand, and ends under its id."""
    first.see(50, 90, 90, 90)
    second = Life(first.root, clock, seq=10)
    assert [f.fault for f in second.judge.standing()] == ["thermal"]
    assert second.see(90, 50) == ["cleared"]


def test_a_stopped_agent_keeps_its_memory_up_to_the_last_observation(first: Life) -> None:
    """On its way out."""
    first.see(50, 90, 90)
    first.snapshots.close()
    assert first.kept() == 2


def test_memory_of_another_boot_is_taken_and_said_to_be_so(first: Life, clock: FakeClock) -> None:
    """Trends of days do not end with a reboot; what a reboot means the detectors know."""
    first.see(50, 90, 90)
    second = Life(first.root, clock, boot="b2", seq=10)
    assert second.outcomes() == {"rebooted"}
    assert second.see(90) == ["onset"]


@pytest.mark.parametrize("days", [1.01, -1.01])
def test_stale_memory_is_left_alone(
    first: Life, clock: FakeClock, days: float, caplog: pytest.LogCaptureFixture
) -> None:
    """More than a day old, or of a day to come: cold, counted, and said with the file."""
    first.see(50, 90, 90)
    clock.step(days * DAY_S)
    second = Life(first.root, clock, seq=10)
    assert second.cold == ("judge", "hot", "incidents")
    assert second.outcomes() == {"stale"}
    assert f"{FILE} is stale" in caplog.text
    assert second.see(90) == []


def ended(life: Life) -> dict[str, bool]:
    """Whether each incident that this life reported is over."""
    return {one.id: not one.active for one in life.incidents}


@pytest.mark.parametrize("days", [2, -2, -20_000])
@pytest.mark.parametrize("saved", [True, False], ids=["in-the-snapshot", "in-the-log"])
def test_what_a_life_left_open_ends_after_a_day_off(
    first: Life, clock: FakeClock, days: int, *, saved: bool
) -> None:
    """Finding and incident end with the first reading of a cool GPU, and not before they began."""
    first.see(50, 90, 90, 90)
    if saved:
        first.snapshots.close()
    (opened,) = first.judge.open()
    clock.step(days * DAY_S)
    second = Life(first.root, clock, boot="b2", seq=10)
    assert (second.judge.standing(), second.judge.open()) == ((), ())
    assert second.see(50, 50) == ["cleared"]
    assert ended(second) == {opened.id: True}
    assert all(one.cleared_ns >= one.opened_ns for one in second.incidents)


def test_a_fault_that_lasts_over_a_day_off_opens_another_incident(
    first: Life, clock: FakeClock
) -> None:
    """The old one ends, and the detectors find it again."""
    first.see(50, 90, 90, 90)
    clock.step(2 * DAY_S)
    second = Life(first.root, clock, boot="b2", seq=10)
    assert second.see(90, 90, 90, 90) == ["cleared", "onset"]
    assert list(ended(second).values()) == [True, False]


def test_what_ended_before_a_day_off_does_not_end_twice(first: Life, clock: FakeClock) -> None:
    """The log has its end, the snapshot has not."""
    first.see(50, 90, 90, 90)
    first.snapshots.close()
    kept = (first.root / "state" / FILE).read_bytes()
    first.see(50)
    clock.advance(3600)
    first.see(50)
    assert not first.judge.open()
    (first.root / "state" / FILE).write_bytes(kept)
    clock.step(2 * DAY_S)
    second = Life(first.root, clock, boot="b2", seq=10)
    assert second.see(50) == []
    assert second.incidents == []


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04", None], ids=["empty", "other", "gone"])
@pytest.mark.parametrize("sealed", [True, False], ids=["in-the-store", "in-the-log"])
def test_what_a_damaged_snapshot_left_open_ends(
    first: Life, clock: FakeClock, damage: bytes | None, *, sealed: bool
) -> None:
    """As the newest snapshot in the store that can be read has it, and the log after that."""
    first.see(50, 90, 90, 90)
    if sealed:
        clock.advance(DAY_S)
        first.see(90)
        for segment in (first.root / "wal").glob("*"):
            segment.unlink()
    (opened,) = first.judge.open()
    file = first.root / "state" / FILE
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage)
    (first.root / "snapshots" / "date=2999-01-01").mkdir()
    (first.root / "snapshots" / "date=2999-01-01" / "n1-b1-0.npz").write_bytes(b"damaged as well")
    second = Life(first.root, clock, seq=10)
    assert second.see(50) == ["cleared"]
    assert ended(second) == {opened.id: True}


@pytest.mark.slow
@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04", None])
def test_damaged_memory_is_left_alone(first: Life, clock: FakeClock, damage: bytes | None) -> None:
    """Empty, not what it should be, or cut in the middle."""
    first.see(50, 90, 90)
    file = first.root / "state" / FILE
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    second = Life(first.root, clock, seq=10)
    assert second.outcomes() == {"corrupt"}
    assert second.see(90, 90, 90) == ["onset"]
    assert second.kept() == 10


def test_memory_without_its_facts_is_left_alone(first: Life, clock: FakeClock) -> None:
    """Nobody could say what came after it."""
    first.see(50, 90, 90)
    (first.root / "state" / FILE).write_bytes(
        dump(first.judge.memories, time_ns=str(clock.time_ns()), boot_id="b1", seq="soon")
    )
    assert Life(first.root, clock, seq=10).outcomes() == {"corrupt"}


def test_memory_of_another_version_costs_that_detector_only(
    first: Life, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An update that changes one detector leaves the others theirs; what it had said
    does not stand forever.
    """
    first.see(50, 90, 90)
    clock.advance(60)
    first.see(90)
    monkeypatch.setattr(Hot, "version", 2)
    second = Life(first.root, clock, seq=10)
    assert second.cold == ("hot",)
    assert second.metrics.value(agent.RESTORES, "hot", "version") == 1
    assert second.metrics.value(agent.RESTORES, "judge", "restored") == 1
    assert second.see(50) == ["cleared"]


def test_a_disk_that_refuses_is_said_once_counted_and_tried_again(
    first: Life, caplog: pytest.LogCaptureFixture
) -> None:
    """A file stands where the folder should be; once it is gone the memory is kept."""
    (first.root / "state").write_text("in the way")
    first.see(50)
    first.clock.advance(60)
    first.see(50)
    assert first.metrics.value(agent.SNAPSHOTS, "failed") == 2
    assert caplog.text.count("saving the detectors' state fails") == 1
    (first.root / "state").unlink()
    first.clock.advance(60)
    first.see(50)
    assert first.kept() == 2
    assert first.metrics.value(agent.SNAPSHOT_BYTES) == (first.root / "state" / FILE).stat().st_size


def stored(root: Path) -> list[str]:
    """Snapshots in the store, by day."""
    return sorted(path.parent.name for path in (root / "snapshots").glob("date=*/*.npz"))


def test_each_start_and_each_day_is_kept_in_the_store(first: Life, clock: FakeClock) -> None:
    """What a replay begins with: the first of each life, and the first after midnight UTC."""
    first.see(50, 50)
    assert stored(first.root) == ["date=2027-01-15"]
    clock.advance(16 * 3600)
    first.see(50)
    Life(first.root, clock, seq=10).see(50)
    assert stored(first.root) == ["date=2027-01-15", "date=2027-01-16", "date=2027-01-16"]


@pytest.mark.slow
def test_snapshots_in_the_store_are_bounded(first: Life, clock: FakeClock) -> None:
    """An agent that starts again and again leaves the newest sixty."""
    for life in range(KEPT + 3):
        Life(first.root, clock, seq=10 * (life + 1)).see(50)
    assert len(stored(first.root)) == KEPT
