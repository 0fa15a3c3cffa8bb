"""Sealed files are read again in turn: one that rots is named, counted and left where it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.catalog import agent
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.live import live_files
from pipeline.store.keep.compact import compact
from pipeline.store.keep.policy import Policy, Upkeep
from pipeline.store.keep.scrub import FILE, scrub
from pipeline.store.keep.upkeep import upkeep
from tests.pipeline.store.days import later, two_days
from tests.pipeline.store.files.test_quarantine import flipped

pytestmark = pytest.mark.slow
ALL = 1 << 40


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store of one compacted day."""
    two_days(tmp_path, ("node",), (1,))
    compact(later(tmp_path))
    return tmp_path


def test_every_file_has_its_turn(root: Path) -> None:
    """One at each run here; after the last one the first one is read again."""
    files = len(list(root.glob("*/date=*/*.parquet")))
    turns = [scrub(root, 1).cursor for _ in range(files + 1)]
    assert len(set(turns)) == files
    assert turns[0] == turns[-1]


def test_a_rotten_file_is_reported_once_and_counted_until_it_is_gone(root: Path) -> None:
    """Queries of other columns still need it, so it stays; a whole copy put back ends it."""
    (path,) = live_files(root, "node")
    whole = path.read_bytes()
    flipped(path)
    first, second = scrub(root, ALL), scrub(root, ALL)
    assert [str(path) in why for why in first.fresh] == [True]
    assert (second.fresh, list(second.damaged)) == ([], [path.relative_to(root).as_posix()])
    assert path.exists()
    path.write_bytes(whole)
    assert scrub(root, ALL).damaged == {}
    flipped(path)
    scrub(root, ALL)
    path.unlink()
    assert scrub(root, 1).damaged == {}


def test_upkeep_reports_it_to_the_agent(root: Path) -> None:
    """The gauge, and the time that the alert looks at."""
    (path,) = live_files(root, "node")
    flipped(path)
    over, policy = later(root), Policy(0, 0, 0, 0, 1 << 50)
    report = Upkeep.from_json(upkeep(over, policy, most_bytes=ALL).to_json())
    metrics = SelfMetrics()
    report.publish(metrics, over.now_us * 1000)
    assert metrics.value(agent.STORE_DAMAGED_FILES) == 1
    assert metrics.value(agent.STORE_LAST_DAMAGE) == over.now_us / 1e6
    assert [str(path) in why for why in report.fresh] == [True]


def test_a_damaged_memory_of_it_begins_at_the_beginning(root: Path) -> None:
    """It costs a look at files that were read before, no more."""
    cursor = scrub(root, 1).cursor
    for text in ("", "{", "[]", '{"cursor": 3}', '{"cursor": "", "damaged": 5}'):
        (root / FILE).write_text(text)
        assert scrub(root, 1).cursor == cursor
