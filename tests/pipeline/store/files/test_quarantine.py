"""Files that cannot be read: named, moved, counted; the rest is compacted and answers."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.replay import replay
from pipeline.store.files import footer
from pipeline.store.files.live import live_files
from pipeline.store.files.parquet import DiskError, ForeignError, named, read
from pipeline.store.files.quarantine import quarantine
from pipeline.store.keep.compact import compact
from tests.pipeline.store.days import files, later, two_days
from tests.pipeline.store.keep.test_seal import same


def truncated(path: Path) -> None:
    """A copy that broke off."""
    path.write_bytes(path.read_bytes()[:-20])


def empty(path: Path) -> None:
    """A file system that lost the contents in a power cut."""
    path.write_bytes(b"")


def flipped(path: Path) -> None:
    """One bit of a page's data."""
    raw = bytearray(path.read_bytes())
    with pq.ParquetFile(path) as file:
        column = file.metadata.row_group(0).column(3)
        at = column.data_page_offset + column.total_compressed_size - 3
    raw[at] ^= 16
    path.write_bytes(raw)


def foreign(path: Path) -> None:
    """Another program's file under a name like ours."""
    path.write_text("id,name\n1,x\n")


def of_another_table(path: Path) -> None:
    """A file of ours in the wrong folder."""
    other = next((path.parents[3] / "reads").rglob("*.parquet"))
    path.write_bytes(other.read_bytes())


def newer(path: Path) -> None:
    """Of a layout that this version does not know."""
    table = pq.read_table(path, partitioning=None)
    pq.write_table(
        table.replace_schema_metadata({**table.schema.metadata, b"tocsin.format": b"99"}), path
    )


def without_seq(path: Path) -> None:
    """Another program's writer, which leaves out the columns that every table begins with."""
    table = pq.read_table(path, partitioning=None)
    pq.write_table(table.drop_columns(["seq"]), path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [truncated, empty, flipped, foreign, of_another_table, without_seq],
    ids=lambda d: d.__name__,
)
def test_a_file_that_cannot_be_read_is_moved_and_the_rest_answers(
    tmp_path: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    """Its place below quarantine/ is its place in the layout; one line names it; the day
    is compacted without it.
    """
    whole = two_days(tmp_path, hours=(1,))
    bad, *_ = live_files(tmp_path, "ib_port")
    damage(bad)
    content = bad.read_bytes()
    done = compact(later(tmp_path))
    assert (tmp_path / "quarantine" / bad.relative_to(tmp_path)).read_bytes() == content
    assert len(done.quarantined) == 1
    assert caplog.text.count(str(bad)) == 1
    assert files(tmp_path, "ib_port") == ["c1-n1-day-0001.parquet"]
    back = list(replay(tmp_path))
    assert [o.seq for o, _ in back] == [o.seq for o, _ in whole]
    hurt = [(a, b) for (a, _), (b, _) in zip(back, whole, strict=True) if a != b]
    assert 0 < len(hurt) < len(whole)
    for a, b in hurt:
        assert [f.kind for f in a.frames] == ["node"]
        assert a.frames == b.frames[1:]
        assert a.unread[len(b.unread) :][0].reason == "not_stored"
    assert compact(later(tmp_path)).quarantined == []


@pytest.mark.slow
def test_a_file_of_a_newer_version_is_left_where_it_is(tmp_path: Path) -> None:
    """After a downgrade: its day waits for the version that can read it, the rest is compacted."""
    two_days(tmp_path, hours=(1,))
    other, *_ = live_files(tmp_path, "ib_port")
    newer(other)
    done = compact(later(tmp_path))
    assert (done.quarantined, done.waiting) == ([], {other: "newer"})
    assert other.exists()
    assert len(files(tmp_path, "ib_port")) > 1
    assert files(tmp_path, "node") == ["c1-n1-day-0001.parquet"]


@pytest.mark.slow
def test_a_compacted_file_that_rots_is_moved_when_its_day_is_reopened(tmp_path: Path) -> None:
    """Its rows are lost, the late file's are not."""
    two_days(tmp_path, hours=(1,))
    compact(later(tmp_path))
    (rotten,) = live_files(tmp_path, "node")
    flipped(rotten)
    two_days(tmp_path, hours=(3,))
    done = compact(later(tmp_path))
    assert [str(rotten) in words for words in done.quarantined] == [True]
    assert read(live_files(tmp_path, "node")[0], "node").num_rows == 30


@pytest.mark.slow
def test_two_files_of_one_name_are_both_kept(tmp_path: Path) -> None:
    """Evidence is not overwritten."""
    for content in (b"a", b"b"):
        two_days(tmp_path, hours=(1,))
        bad = min((tmp_path / "node").rglob("hour=01/*.parquet"))
        bad.write_bytes(content)
        compact(later(tmp_path))
    kept = sorted((tmp_path / "quarantine").rglob("*.parquet*"))
    assert [path.read_bytes() for path in kept] == [b"a", b"b"]


def test_quarantine_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest go when there are too many, or too large ones; the newest stays."""
    monkeypatch.setattr("pipeline.store.files.quarantine.MAX_FILES", 3)
    monkeypatch.setattr("pipeline.store.files.quarantine.MAX_BYTES", 1000)

    def kept(*sizes: int) -> list[int]:
        for number, size in enumerate(sizes):
            path = tmp_path / "wal" / f"{number}.wal"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(bytes(size))
            quarantine(tmp_path, path, "damaged")
        return sorted(p.stat().st_size for p in (tmp_path / "quarantine").rglob("*.wal*"))

    assert kept(1, 2, 3, 4) == [2, 3, 4]
    assert kept(600, 700) == [700]
    assert kept(5000) == [5000]


@pytest.mark.slow
def test_a_flipped_bit_is_seen_wherever_the_values_are(tmp_path: Path) -> None:
    """Pages carry checksums: whatever bit of a column's data flips, it is refused or changes
    nothing; wrong values never come back.
    """
    two_days(tmp_path, ("node",), (1,))
    path, *_ = live_files(tmp_path, "node")
    good, raw = read(path, "node"), path.read_bytes()
    rng = np.random.default_rng(1)
    with pq.ParquetFile(path) as file:
        columns = [file.metadata.row_group(0).column(i) for i in range(file.metadata.num_columns)]
    refused = 0
    for column in columns * 6:
        begin = column.dictionary_page_offset or column.data_page_offset
        at = begin + int(rng.integers(column.total_compressed_size))
        hurt = bytearray(raw)
        hurt[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(hurt)
        try:
            assert read(path, "node").equals(good), f"bit at {at} of {column.path_in_schema}"
        except ForeignError:
            refused += 1
    assert refused > len(columns)


@pytest.mark.slow
def test_a_flipped_bit_in_the_footer_is_refused_by_name(tmp_path: Path) -> None:
    """Numbers of rows, least and greatest values, offsets, what a file replaces: pyarrow believes
    them all, and would leave out rows; the footer's own checksum does not.
    """
    two_days(tmp_path, ("node",), (1,))
    compact(later(tmp_path))
    for path in (live_files(tmp_path, "node")[0], live_files(tmp_path, "node_1m")[0]):
        table, raw = path.parents[1].name, path.read_bytes()
        good = read(path, table)
        size = int.from_bytes(raw[-8:-4], "little")
        rng = np.random.default_rng(2)
        for number, place in enumerate(rng.integers(8 + size, size=200).tolist()):
            hurt = bytearray(raw)
            hurt[len(raw) - 1 - place] ^= 1 << int(rng.integers(8))
            hurt_file = path.with_name(f"c1-n1-b-{number:016d}.parquet")
            hurt_file.write_bytes(hurt)
            try:
                # its key was hit: as a file of an earlier version, and all else is whole
                assert read(hurt_file, table).equals(good)
            except ForeignError as error:
                assert str(hurt_file) in str(error)
            else:
                assert b"tocsin.footer" not in hurt


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE, errno.ENOMEM])
def test_the_systems_own_trouble_is_not_the_files(tmp_path: Path, number: int) -> None:
    """A full disk, or too many open files, is no reason to move a file: pyarrow's
    own errors have no number.
    """
    with pytest.raises(OSError, match="words") as caught, named(tmp_path):
        raise OSError(number, "words")
    assert caught.value.errno == number
    with pytest.raises(ForeignError), named(tmp_path):
        raise OSError("Couldn't deserialize thrift")


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.EUCLEAN, errno.EBADMSG])
def test_bytes_that_the_disk_cannot_give_are_one_files_trouble(tmp_path: Path, number: int) -> None:
    """Named as a damaged file is, and still an error of the system."""
    with pytest.raises(DiskError) as caught, named(tmp_path / "f"):
        raise OSError(number, "words")
    assert isinstance(caught.value, ForeignError)
    assert isinstance(caught.value, OSError)
    assert (caught.value.path, str(caught.value)) == (
        tmp_path / "f",
        f"{tmp_path / 'f'}: cannot be read: [Errno {number}] words",
    )


@pytest.mark.slow
@pytest.mark.parametrize("where", ["pages", "footer"])
def test_compaction_goes_on_without_a_file_that_the_disk_cannot_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Its day waits, as the disk may be back tomorrow, and every other day is one file a table."""
    two_days(tmp_path)
    bad, *others = live_files(tmp_path, "ib_port")

    class Rotten(pq.ParquetFile):  # type: ignore[misc]
        def __init__(self, source: Path, **options: object) -> None:
            self._rotten = source == bad
            super().__init__(source, **options)

        def read_row_group(self, *args: object, **options: object) -> object:
            if self._rotten:
                raise OSError(errno.EIO, "Error reading bytes from file")
            return super().read_row_group(*args, **options)

    def is_whole(path: Path) -> bool:
        if path == bad:
            raise OSError(errno.EIO, "Input/output error")
        return True

    if where == "pages":
        monkeypatch.setattr(pq, "ParquetFile", Rotten)
    else:
        monkeypatch.setattr(footer, "is_whole", is_whole)
    done = compact(later(tmp_path))
    assert (done.waiting, done.quarantined) == ({bad: "disk"}, [])
    assert bad.exists()
    left = {path.relative_to(tmp_path).parts[1] for path in others}
    assert len(left) == 2
    whole = [path for path in live_files(tmp_path, "ib_port") if "-day-" in path.name]
    assert {path.parent.name for path in whole} == left - {bad.parent.parent.name}


@pytest.mark.slow
def test_replay_of_an_intact_store_says_nothing_is_missing(tmp_path: Path) -> None:
    """The reason not_stored is for lost rows only."""
    whole = two_days(tmp_path, hours=(1,))
    same(list(replay(tmp_path)), whole)
    assert not [u for o, _ in replay(tmp_path) for u in o.unread if u.reason == "not_stored"]
