"""Tailing: every line once, whole, through all that may happen to a file."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.sources.tail import MAX_LINE, Tail

LOTS = 1 << 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file."""
    return tmp_path / "log"


@pytest.fixture
def tail(path: Path) -> Iterator[Tail]:
    """Its reader."""
    reader = Tail(path)
    yield reader
    reader.close()


def add(path: Path, data: bytes) -> None:
    """Append."""
    with path.open("ab") as file:
        file.write(data)


def test_lines_come_once_and_whole(tail: Tail, path: Path) -> None:
    """A line that is still being written waits for its end."""
    add(path, b"one\ntw")
    assert tail.read(LOTS) == [b"one"]
    add(path, b"o\nthree\n")
    assert tail.read(LOTS) == [b"two", b"three"]
    assert tail.read(LOTS) == []


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(min_size=1, max_size=30), max_size=8), st.integers(1, 40))
def test_pieces_make_no_difference(tmp_path: Path, pieces: list[bytes], step: int) -> None:
    """However the file grows and is read, its lines are those of the whole."""
    path = tmp_path / "pieces"
    path.write_bytes(b"")
    reader, found = Tail(path), []
    for piece in pieces:
        add(path, piece)
        found += reader.read(step)
    while more := reader.read(LOTS):
        found += more
    reader.close()
    assert found == b"".join(pieces).split(b"\n")[:-1]


def test_a_truncated_file_is_read_from_its_beginning(tail: Tail, path: Path) -> None:
    """What was held back of the old content is forgotten."""
    add(path, b"old line\nhalf")
    tail.read(LOTS)
    path.write_bytes(b"new\n")
    assert tail.read(LOTS) == [b"new"]


def test_a_file_written_anew_is_recognised_though_it_grew(tail: Tail, path: Path) -> None:
    """Truncated and longer than before between two reads: it begins otherwise."""
    add(path, b"first life\n")
    tail.read(LOTS)
    path.write_bytes(b"second life, and longer\n")
    assert tail.read(LOTS) == [b"second life, and longer"]


def test_a_rotated_file_is_read_to_its_end_first(tail: Tail, path: Path) -> None:
    """What was written before the rotation is not lost."""
    add(path, b"one\n")
    tail.read(LOTS)
    add(path, b"two\n")
    path.rename(path.with_suffix(".1"))
    path.write_bytes(b"three\n")
    assert [tail.read(LOTS), tail.read(LOTS)] == [[b"two"], [b"three"]]


def test_of_a_large_file_only_the_end_is_read(path: Path) -> None:
    """An agent that starts late does not read days; the first line it shows is whole."""
    add(path, b"".join(b"line %d\n" % n for n in range(1000)))
    reader = Tail(path, from_the_end=20)
    assert reader.read(LOTS) == [b"line 998", b"line 999"]
    assert reader.lost == 0
    reader.close()


def test_a_line_without_end_is_lost_and_the_next_is_read(tail: Tail, path: Path) -> None:
    """Memory stays within one line."""
    add(path, b"x" * (3 * MAX_LINE))
    for _ in range(4):
        tail.read(MAX_LINE)
        assert len(tail._rest) <= 2 * MAX_LINE
    add(path, b"\nnext\n")
    assert tail.read(LOTS) == [b"next"]
    assert tail.lost == 1


@pytest.mark.parametrize("draw", [b"\r%5d of 100000", b"%5d of 100000\r"])
@pytest.mark.parametrize("began", [b"", b"\n"], ids=["within", "before"])
@pytest.mark.parametrize("step", [LOTS, 1 << 14])
def test_what_follows_an_hour_of_a_progress_bar_is_read(
    path: Path, draw: bytes, began: bytes, step: int
) -> None:
    """A bar is one line without end, of which the last state is kept, whether the reader began
    within it or before it.
    """
    bar = b"".join(draw % step for step in range(10_000))
    add(path, b"first %s%s" % (bar, began))
    reader, found = Tail(path, from_the_end=1), []
    reader.read(step)
    add(path, bar + b"Watchdog caught collective operation timeout\n")
    while more := reader.read(step) or (reader.behind and [b""]):
        found += more
    assert found[-1].endswith(b"Watchdog caught collective operation timeout")
    assert len(reader._rest) <= 2 * MAX_LINE
    reader.close()


def test_a_file_that_is_not_there_yet_is_an_error_and_no_end(tail: Tail, path: Path) -> None:
    """It is read once it is there."""
    with pytest.raises(FileNotFoundError):
        tail.read(LOTS)
    add(path, b"now\n")
    assert tail.read(LOTS) == [b"now"]


def test_a_descriptor_that_went_stale_is_replaced(
    tail: Tail, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An NFS server that was restarted: the file is opened again, and read on where it was."""
    add(path, b"one\ntw")
    assert tail.read(LOTS) == [b"one"]
    stale = {tail._fd}
    pread = os.pread

    def refusing(fd: int, size: int, offset: int) -> bytes:
        if fd in stale:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return pread(fd, size, offset)

    monkeypatch.setattr(os, "pread", refusing)
    add(path, b"o\nthree\n")
    with pytest.raises(OSError, match="Stale"):
        tail.read(LOTS)
    assert tail.offset == 4
    held = os.open(os.devnull, os.O_RDONLY)  # so that the file gets another descriptor
    assert tail.read(LOTS) == [b"two", b"three"]
    os.close(held)
