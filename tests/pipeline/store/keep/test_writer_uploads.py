"""The keeper and its uploading child: when it comes back, what it says once, and that trouble on
one side leaves the other alone.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from pipeline.catalog import agent
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.segment import MAGIC
from pipeline.store.files.wal import Wal, segments
from pipeline.store.keep import seal
from pipeline.store.keep.seal_report import SealReport
from pipeline.store.keep.writer import SealError, StoreWriter, seal_in_child
from pipeline.store.remote import outbox
from pipeline.store.remote.upload_plan import CAUSES, Plan, Report, Target
from tests.fakes import FakeClock, gpu_frame, observed
from tests.wait import PATIENCE_S

WAITS = Report(
    failures={"throttled": 1},
    pending_files=2,
    pending_bytes=5,
    oldest_s=1.0,
    retry_s=60.0,
    error="throttled: a 704 us",
)


class House:
    """A keeper whose children give the reports of a list, the last one forever."""

    def __init__(self, root: Path, *reports: Report | SealError) -> None:
        self.clock, self.metrics, self.root, self.seq = FakeClock(), SelfMetrics(), root, 0
        self.reports = list(reports)
        self.runs: list[int] = []  # number of segments that each child got
        self.keeper = StoreWriter(root, "n1", self.clock, self.metrics, seal=self.child)

    def child(self, paths: Sequence[Path]) -> SealReport:
        report = self.reports[min(len(self.runs), len(self.reports) - 1)]
        self.runs.append(len(paths))
        for path in paths:
            path.unlink()
        if isinstance(report, SealError):
            raise report
        return SealReport(upload=report)

    def seconds(self, n: int) -> None:
        for _ in range(n):
            self.clock.advance(1.0)
            self.keeper.write(
                observed(self.clock, gpu_frame(self.clock, {"power_milliwatts": 1}), seq=self.seq),
                (),
            )
            self.seq += 1
            if self.keeper._thread is not None:
                self.keeper._thread.join(PATIENCE_S)


def post(root: Path) -> None:
    """One file waits."""
    file = root / "gpu/date=2027-01-15/hour=08/c-n1-b-0000000000000001.parquet"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"x")
    outbox.post(root, [file], page=False)


@pytest.mark.slow
def test_what_waited_before_a_restart_is_tried_at_the_start(tmp_path: Path) -> None:
    """Evidence from before a reboot does not wait for the next sealing."""
    post(tmp_path)
    house = House(tmp_path, Report())
    house.seconds(1)
    assert house.runs == [0]
    house.seconds(100)
    assert house.runs == [0]


@pytest.mark.slow
def test_the_child_says_when_it_wants_to_come_back(tmp_path: Path) -> None:
    """Between two sealings the backlog is tried when the pause ends, not before."""
    post(tmp_path)
    house = House(tmp_path, WAITS, Report())
    house.seconds(60)
    assert house.runs == [0]
    house.seconds(2)
    assert house.runs == [0, 0]
    house.seconds(300)
    assert house.runs == [0, 0]


def test_numbers_of_the_upload_are_born_at_zero(tmp_path: Path) -> None:
    """A rate over the first failure needs the zero before it; without uploads
    there are no such numbers.
    """
    metrics = SelfMetrics()
    StoreWriter(tmp_path, "n1", FakeClock(), metrics, seal=lambda _: None, uploads=True)
    assert {metrics.value(agent.UPLOAD_FAILURES, cause) for cause in CAUSES} == {0}
    assert (
        metrics.value(agent.UPLOAD_FILES)
        == metrics.value(agent.UPLOAD_GIVEN_UP_FILES)
        == metrics.value(agent.UPLOAD_PENDING_FILES)
        == 0
    )
    assert metrics.value(agent.UPLOAD_OLDEST) is None
    without = SelfMetrics()
    StoreWriter(tmp_path, "n1", FakeClock(), without, seal=lambda _: None)
    assert without.value(agent.UPLOAD_FILES) is None


def test_an_outage_is_said_once_and_so_is_its_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Other words for the same cause are no news; another cause is."""
    post(tmp_path)
    same = Report(
        failures={"throttled": 1}, pending_files=2, retry_s=1.0, error="throttled: b 12 us"
    )
    other = Report(failures={"denied": 1}, pending_files=2, retry_s=1.0, error="denied: c")
    caplog.set_level(logging.INFO)
    House(tmp_path, WAITS, same, other, Report(sent_files=3), Report()).seconds(90)
    messages = [record.getMessage() for record in caplog.records if "upload" in record.getMessage()]
    assert messages == [
        "upload fails: throttled: a 704 us",
        "upload fails: denied: c",
        "upload recovered after 3 failures",
    ]


def test_giving_up_is_said_once_until_everything_has_left(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log tells of the change; the metric counts."""
    post(tmp_path)
    gives_up = Report(given_up_files=2, given_up_bytes=7, pending_files=1, retry_s=1.0)
    caplog.set_level(logging.INFO)
    house = House(tmp_path, gives_up, gives_up, Report(sent_files=1), Report())
    house.seconds(30)
    messages = [record.getMessage() for record in caplog.records if "room" in record.getMessage()]
    assert len(messages) == 2
    assert house.metrics.value(agent.UPLOAD_GIVEN_UP_FILES) == 4
    assert house.metrics.value(agent.UPLOAD_GIVEN_UP_BYTES) == 14


@pytest.mark.slow
def test_an_upload_that_fails_is_no_failed_sealing(tmp_path: Path) -> None:
    """Segments are sealed in time whatever the store says, and the two are counted apart."""
    house = House(tmp_path, WAITS)
    house.seconds(1000)
    assert house.metrics.value(agent.STORE_SEALS, "failed") == 0
    assert house.metrics.value(agent.STORE_SEALS, "ok") == 1
    assert house.metrics.value(agent.UPLOAD_FAILURES, "throttled") == len(house.runs)


def test_an_upload_beside_a_failed_sealing_is_still_counted(tmp_path: Path) -> None:
    """What the child reported before it failed is not lost."""
    post(tmp_path)
    house = House(
        tmp_path, SealError("disk full", SealReport(upload=Report(sent_files=2))), Report()
    )
    house.seconds(1)
    assert (
        house.metrics.value(agent.UPLOAD_FILES),
        house.metrics.value(agent.STORE_SEALS, "failed"),
    ) == (
        2,
        1,
    )


@pytest.mark.slow
def test_a_segment_that_cannot_be_sealed_holds_up_neither_others_nor_the_upload(
    tmp_path: Path,
) -> None:
    """The child goes on and fails at the end, with its report."""
    root, share = tmp_path / "node", tmp_path / "share"
    share.mkdir()
    clock = FakeClock()
    wal = Wal(root / "wal", clock, SelfMetrics())
    wal.write(observed(clock, gpu_frame(clock, {"power_milliwatts": 1})), ())
    wal.close()
    unreadable = root / "wal" / "a.wal"
    unreadable.mkdir()
    with pytest.raises(SealError) as failed:
        seal_in_child(root, "c1", Plan(Target(str(share))))(
            [unreadable, *(p for p in segments(root / "wal") if p != unreadable)]
        )
    assert failed.value.report is not None
    assert failed.value.report.upload is not None
    assert failed.value.report.upload.sent_files == len(list(share.rglob("*.parquet"))) == 3
    assert not outbox.waiting(root)


def test_files_wait_before_their_segment_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash between sealing and posting leaves the segment: it is sealed and posted again."""
    clock = FakeClock()
    wal = Wal(tmp_path / "wal", clock, SelfMetrics())
    wal.write(observed(clock, gpu_frame(clock, {"power_milliwatts": 1})), ())
    wal.close()
    (segment,) = segments(tmp_path / "wal")

    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    plan = Plan(Target(str(tmp_path / "nowhere")))
    with monkeypatch.context() as patch:
        patch.setattr(outbox, "post", crash)
        with pytest.raises(KeyboardInterrupt):
            seal.main([str(tmp_path), "c1", plan.to_json(), str(segment)])
    assert segment.exists()
    seal.main([str(tmp_path), "c1", plan.to_json(), str(segment)])
    assert not segment.exists()
    assert {p.table for p in outbox.waiting(tmp_path)} == {"gpu", "devices", "reads"}


def test_without_a_plan_nothing_waits_and_no_upload_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Uploading is off unless it is set up."""
    (tmp_path / "wal").mkdir()
    segment = tmp_path / "wal" / "boot-0000000000000001.wal"
    segment.write_bytes(MAGIC)
    seal.main([str(tmp_path), "c1", "", str(segment)])
    assert SealReport.from_json(capsys.readouterr().out).upload is None
    assert not (tmp_path / outbox.FOLDER).exists()
