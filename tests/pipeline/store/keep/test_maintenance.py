"""Upkeep in the agent: when it runs, that it hurts nothing, that a real child does
it and the metrics of its runs.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pipeline import child
from pipeline.catalog import agent
from pipeline.replay import replay
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.lock import lock
from pipeline.store.keep.maintenance import EVERY_S, MaintenanceScheduler, upkeep_in_child
from pipeline.store.keep.policy import Policy, Upkeep
from pipeline.store.keep.writer import StoreWriter
from tests.fakes import FakeClock, observed
from tests.pipeline.store.days import files, two_days
from tests.pipeline.store.keep.test_seal import same
from tests.sources import ROOT
from tests.wait import PATIENCE_S


class Kept:
    """A maintenance_scheduler with its numbers, whose upkeep is a list of reports and errors."""

    def __init__(self, *outcomes: Upkeep | Exception) -> None:
        self.clock, self.metrics = FakeClock(), SelfMetrics()
        self._outcomes = iter(outcomes)
        self.runs = 0
        self.maintenance_scheduler = MaintenanceScheduler(self.clock, self.metrics, self.upkeep)

    def upkeep(self) -> Upkeep:
        self.runs += 1
        outcome = next(self._outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def after(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.maintenance_scheduler.run_if_due()
        self.maintenance_scheduler.wait(PATIENCE_S)


def test_it_runs_at_once_and_then_every_quarter_of_an_hour_at_most() -> None:
    """However often segments are sealed."""
    kept = Kept(*[Upkeep()] * 5)
    for _ in range(31):
        kept.after(60)
    assert kept.runs == 3
    assert kept.metrics.value(agent.STORE_UPKEEPS, "ok") == 3


def test_trouble_is_counted_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """A full disk for an hour is one line, and one when it is over."""
    caplog.set_level("INFO")
    kept = Kept(*[RuntimeError("disk full")] * 3, Upkeep())
    for _ in range(4):
        kept.after(EVERY_S)
    assert kept.metrics.value(agent.STORE_UPKEEPS, "failed") == 3
    assert caplog.text.count("disk full") == 1
    assert "recovered" in caplog.text


def test_what_was_moved_and_given_up_is_in_the_agents_log(caplog: pytest.LogCaptureFixture) -> None:
    """The child's own words end with it: the agent says them."""
    caplog.set_level("INFO")
    Kept(Upkeep(quarantined=("/x/a.parquet: rotten",), removed={"gpu": {"budget": 4096}})).after(0)
    assert "/x/a.parquet: rotten" in caplog.text
    assert "deleted 4096 bytes of gpu: budget" in caplog.text


@pytest.mark.slow
def test_a_real_child_compacts_and_reports(tmp_path: Path) -> None:
    """The short-lived process of the agent, end to end."""
    # of 2027; the child has the machine's clock, so the days must look past
    whole = two_days(tmp_path)
    for date in list(tmp_path.glob("*/date=2027-01-1*")):
        date.rename(date.with_name(date.name.replace("2027", "2025")))
    report = upkeep_in_child(tmp_path, Policy(0, 0, 0, 0))()
    assert report.written > 10
    assert report.sizes["ib_port"] > 0
    assert files(tmp_path, "reads", "date=2025-01-15") == ["c1-n1-day-0001.parquet"]
    for date in list(tmp_path.glob("*/date=2025-01-1*")):
        date.rename(date.with_name(date.name.replace("2025", "2027")))
    same(list(replay(tmp_path)), whole)


@pytest.mark.slow
def test_the_child_says_why_it_could_not(tmp_path: Path) -> None:
    """An operator compacts by hand at the moment: the reason is in the error."""
    with (
        lock(tmp_path, "compact"),
        pytest.raises(RuntimeError, match="is in use: another tocsin compact"),
    ):
        upkeep_in_child(tmp_path, Policy())()


@pytest.mark.slow
def test_the_agents_side_of_the_store_imports_nothing_heavy() -> None:
    """Neither pyarrow nor polars is ever resident in the steady agent."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import pipeline.store.keep.writer, "
        "pipeline.store.keep.maintenance; print(*sys.modules)"
    )
    ran = child.run([sys.executable, "-I", "-c", code], timeout_s=PATIENCE_S)
    assert ran.returncode == 0, ran.stderr.decode()
    assert {"pyarrow", "polars", "duckdb", "obstore"} & set(ran.stdout.decode().split()) == set()


def test_a_disk_that_refuses_a_record_is_looked_after_at_once(tmp_path: Path) -> None:
    """On a full disk no segment is ever closed and sealed: upkeep must not wait for that."""
    kept = Kept(Upkeep())
    (tmp_path / "wal").write_text("in the way")
    keeper = StoreWriter(
        tmp_path,
        "n1",
        kept.clock,
        kept.metrics,
        seal=lambda _: None,
        maintenance_scheduler=kept.maintenance_scheduler,
    )
    with pytest.raises(OSError, match="wal"):
        keeper.write(observed(kept.clock), ())
    kept.maintenance_scheduler.wait(PATIENCE_S)
    assert kept.runs == 1
