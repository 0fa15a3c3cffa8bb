"""Compaction: one file per table and day, the same observations before and after,
whatever happens in between.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.replay import replay
from pipeline.store.files import merge
from pipeline.store.files.live import hours_of, live_files
from pipeline.store.files.parquet import read
from pipeline.store.keep.compact import compact
from pipeline.store.keep.generations import Pass
from tests.pipeline.store.days import MIDNIGHT_NS, at, files, later, seen, two_days
from tests.pipeline.store.keep.test_seal import same, store


class Killed(BaseException):
    """The process ends here: nothing of ours catches this."""


@pytest.mark.slow
def test_a_day_becomes_one_file_per_table_and_replays_the_same(tmp_path: Path) -> None:
    """Frames bit for bit, events, findings, reasons and changed attributes, across two days."""
    whole = two_days(tmp_path)
    same(list(replay(tmp_path)), whole)
    compact(later(tmp_path))
    for table in (
        "ib_port",
        "node",
        "events",
        "findings",
        "devices",
        "reads",
        "node_1m",
        "ib_port_15m",
    ):
        assert files(tmp_path, table) == ["c1-n1-day-0001.parquet"]
    same(list(replay(tmp_path)), whole)


@pytest.mark.slow
def test_hours_are_found_in_a_compacted_day(tmp_path: Path) -> None:
    """Replay walks hour by hour before and after."""
    two_days(tmp_path)
    before = hours_of(tmp_path)
    compact(later(tmp_path))
    assert hours_of(tmp_path) == before
    assert [(hour * 1000 - MIDNIGHT_NS) // 3_600_000_000_000 for hour in before] == [
        1,
        7,
        13,
        19,
        25,
        31,
    ]


@pytest.mark.slow
def test_a_slice_of_a_compacted_day_is_that_slice(tmp_path: Path) -> None:
    """Bounds of replay hold within a day's file."""
    whole = two_days(tmp_path)
    compact(later(tmp_path))
    since, until = (MIDNIGHT_NS // 1000 + round(h * 3_600_000_000) for h in (6.5, 13 + 5 / 3600))
    same(
        list(replay(tmp_path, since_us=since, until_us=until)),
        [s for s in whole if since <= s[0].time_ns // 1000 < until],
    )


@pytest.mark.slow
def test_a_day_that_is_not_over_is_left_alone(tmp_path: Path) -> None:
    """The last segment of a day may be sealed half an hour after midnight."""
    two_days(tmp_path)
    early = compact(later(tmp_path, 1 + 29 / 1440))
    assert early.written == 0
    compact(later(tmp_path, 1 + 31 / 1440))
    assert files(tmp_path, "ib_port") == ["c1-n1-day-0001.parquet"]
    assert len(files(tmp_path, "ib_port", "date=2027-01-16")) > 1


@pytest.mark.slow
def test_a_second_compaction_changes_nothing(tmp_path: Path) -> None:
    """What is compact stays as it is, byte for byte."""
    two_days(tmp_path)
    compact(later(tmp_path))
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.parquet")}
    assert compact(later(tmp_path)).written == 0
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.parquet")} == before


@pytest.mark.slow
def test_rows_are_sorted_and_groups_hold_few_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question about one device and a few hours decodes a small part of the day."""
    monkeypatch.setattr(merge, "GROUP_ROWS", 16)
    two_days(tmp_path)
    compact(later(tmp_path))
    (path,) = live_files(tmp_path, "ib_port", [MIDNIGHT_NS // 1000])
    rows = read(path, "ib_port")
    keys = list(zip(*(rows[c].to_pylist() for c in ("host", "device", "time")), strict=True))
    assert keys == sorted(keys)
    with pq.ParquetFile(path) as file:
        sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    assert max(sizes) <= 24
    assert len(sizes) >= 3 * 40 // 24


@pytest.mark.slow
def test_merging_within_little_memory_gives_what_sorting_at_once_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scratch files, chunks and overlapping files (the wall clock was set back by
    an hour) change nothing.
    """
    clock = at(5)
    store(tmp_path, list(seen(clock, 20, 0)), clock, segment_bytes=24_000)
    clock.step(-3600 - 10)
    store(tmp_path, list(seen(clock, 20, 1000, seed=2)), clock, segment_bytes=24_000)
    clock.step(3600)
    store(tmp_path, list(seen(clock, 20, 2000, seed=3)), clock, segment_bytes=24_000)
    paths = live_files(tmp_path, "ib_port")
    at_once = merge.sorted_rows(paths, "ib_port")
    monkeypatch.setattr(merge, "CHUNK_BYTES", 30 * 8 * len(at_once.schema))
    compact(later(tmp_path))
    (path,) = live_files(tmp_path, "ib_port")
    assert read(path, "ib_port").equals(at_once)


@pytest.mark.slow
def test_killed_before_any_step_no_row_is_lost_or_doubled_and_the_next_run_finishes(
    tmp_path: Path,
) -> None:
    """Before every change of the disk in turn: readers see each row once, and the next run ends
    where an undisturbed one does.
    """
    house = tmp_path / "house"
    whole = two_days(house, ("node",), (1, 13))
    compact(later(house))
    late = list(seen(at(20), 3, 9000, ("node",), 9))
    store(house, late, at(20))  # so that there is an earlier generation too
    model = shutil.copytree(house, tmp_path / "model")
    steps: list[str] = []
    compact(Pass(model, later(model).now_us, steps.append))
    assert len(steps) > 15
    for number in range(len(steps)):
        place = shutil.copytree(house, tmp_path / str(number))
        assert killed(place, number)
        same(list(replay(place)), [*whole, *late])
        compact(later(place))
        same(list(replay(place)), [*whole, *late])
        assert everything(place) == everything(model)


def everything(root: Path) -> set[Path]:
    """All files and folders, relative to the root."""
    return {p.relative_to(root) for p in root.rglob("*")}


def killed(root: Path, number: int) -> bool:
    """Compact until so many steps are done; whether it was killed."""
    left = iter(range(number))

    def step(_: str) -> None:
        if next(left, None) is None:
            raise Killed

    try:
        compact(Pass(root, later(root).now_us, step))
    except Killed:
        return True
    return False


@pytest.mark.slow
def test_a_late_file_reopens_its_day_under_the_next_generation(tmp_path: Path) -> None:
    """A segment found after a crash still gets into its day, and the roll-ups follow."""
    whole = two_days(tmp_path, hours=(1, 7))
    compact(later(tmp_path))
    late = list(seen(at(3), 5, 500, seed=7))
    store(tmp_path, late, at(3))
    same(list(replay(tmp_path)), [*whole[:10], *late, *whole[10:]])
    compact(later(tmp_path))
    assert {table: files(tmp_path, table) for table in ("ib_port", "reads", "node_1m")} == {
        table: ["c1-n1-day-0002.parquet"] for table in ("ib_port", "reads", "node_1m")
    }
    same(list(replay(tmp_path)), [*whole[:10], *late, *whole[10:]])


@pytest.mark.slow
def test_a_source_that_comes_back_is_still_replaced(tmp_path: Path) -> None:
    """A segment that is sealed a second time (killed before it was removed) after its day was
    compacted twice adds nothing.
    """
    whole = two_days(tmp_path, hours=(1,))
    kept = {p: p.read_bytes() for p in tmp_path.glob("*/*/*/*.parquet")}
    compact(later(tmp_path))
    late = list(seen(at(3), 5, 500))
    store(tmp_path, late, at(3))
    compact(later(tmp_path))
    for path, content in kept.items():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    same(list(replay(tmp_path)), [*whole, *late])
    compact(later(tmp_path))
    assert not [path for path in kept if path.exists()]
    same(list(replay(tmp_path)), [*whole, *late])


@pytest.mark.slow
def test_a_reader_that_began_before_goes_on_over_a_compaction(tmp_path: Path) -> None:
    """Files that vanish under its hands are looked for again."""
    whole = two_days(tmp_path)
    reader = replay(tmp_path)
    first = [next(reader) for _ in range(15)]
    compact(later(tmp_path))
    same([*first, *reader], whole)


@pytest.mark.slow
def test_several_nodes_in_one_directory_keep_files_of_their_own(tmp_path: Path) -> None:
    """Each has its own compacted file, and a file counts for its own node only."""
    whole = two_days(tmp_path, hours=(1,))
    for path in list(tmp_path.glob("*/*/*/*.parquet")):
        shutil.copy(path, path.with_name(path.name.replace("c1-n1-", "c1-n2-")))
    compact(later(tmp_path))
    assert files(tmp_path, "ib_port") == ["c1-n1-day-0001.parquet", "c1-n2-day-0001.parquet"]
    assert read(live_files(tmp_path, "reads")[1], "reads").num_rows == len(whole)


@pytest.mark.slow
def test_devices_keep_their_first_row_of_the_day_and_changes(tmp_path: Path) -> None:
    """Segments introduce every device again; a day needs to say it once, and again
    when an attribute changed.
    """
    two_days(tmp_path, hours=(1, 7, 13))
    compact(later(tmp_path))
    rows = read(live_files(tmp_path, "devices")[0], "devices")
    port = [
        a
        for d, a in zip(rows["device"].to_pylist(), rows["attributes"].to_pylist(), strict=True)
        if d == "ib_port-2"
    ]
    assert port == [
        '{"index":"2"}',
        '{"firmware":"0"}',
        '{"index":"2"}',
        '{"firmware":"1"}',
        '{"index":"2"}',
        '{"firmware":"2"}',
    ]
    assert rows["device"].to_pylist().count("node-1") == 1


@pytest.mark.slow
def test_a_file_of_a_newer_catalogue_is_not_merged(tmp_path: Path) -> None:
    """Merging would lose the columns that this version does not know: its day
    waits, and is still read.
    """
    whole = two_days(tmp_path, hours=(1,))
    path = live_files(tmp_path, "node")[0]
    table = pq.read_table(path, partitioning=None)
    pq.write_table(table.append_column("new_celsius", pa.array([1] * len(table))), path)
    before = files(tmp_path, "node")
    compact(later(tmp_path))
    assert files(tmp_path, "node") == before
    assert files(tmp_path, "ib_port") == ["c1-n1-day-0001.parquet"]
    same(list(replay(tmp_path)), whole)


@pytest.mark.slow
def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    """A scratch file an hour old has no writer any more; a fresh one may."""
    two_days(tmp_path, hours=(1,))
    old, fresh = (
        tmp_path / "node" / "date=2027-01-15" / "hour=01" / f".{name}.parquet.new"
        for name in ("old", "fresh")
    )
    now = later(tmp_path).now_us
    for path, age_s in ((old, 7200), (fresh, 60)):
        path.touch()
        os.utime(path, (now / 1e6 - age_s,) * 2)
    (tmp_path / ".compact").mkdir()
    (tmp_path / ".compact" / "0.parquet").touch()
    compact(later(tmp_path))
    assert (old.exists(), fresh.exists(), (tmp_path / ".compact").exists()) == (False, True, False)


@pytest.mark.slow
def test_a_clock_that_is_set_back_costs_nothing(tmp_path: Path) -> None:
    """Two hours back in the middle of a segment, over midnight: rows lie in the hours that the
    clock showed, and all come back in the order in which they were read.
    """
    clock, whole = at(24.5), []
    story = seen(clock, 40, 0, ("node",))
    for number in range(40):
        whole.append(next(story))
        if number == 20:
            clock.step(-7200)
    store(tmp_path, whole, clock)
    assert [(hour * 1000 - MIDNIGHT_NS) // 3_600_000_000_000 for hour in hours_of(tmp_path)] == [
        22,
        24,
    ]
    same(list(replay(tmp_path)), whole)
    compact(later(tmp_path))
    same(list(replay(tmp_path)), whole)
