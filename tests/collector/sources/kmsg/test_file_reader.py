"""Following a regular file."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.sources.kmsg.file_reader import FileReader
from collector.sources.kmsg.reader import Loss, UnavailableError


def now() -> int:
    """A fixed time."""
    return 1_800_000_000_000_000_000


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log with two lines."""
    path = tmp_path / "kmsg"
    path.write_bytes(b"3,0,10,-;zero\n3,1,11,-;one\n")
    return path


def texts(reader: FileReader) -> list[str]:
    """Texts of the next records."""
    return [record.text for record in reader.read(100)]


def append(path: Path, data: bytes) -> None:
    """Write at the end."""
    with path.open("ab") as file:
        file.write(data)


def test_partial_last_line_waits(log: Path) -> None:
    """Half a line is no line: it is given when it is whole, and once."""
    reader = FileReader(log, now)
    assert texts(reader) == ["zero", "one"]
    append(log, b"3,2,12,-;tw")
    assert texts(reader) == []
    append(log, b"o\n3,3,13,-;three\n")
    assert texts(reader) == ["two", "three"]
    reader.close()


def test_a_record_of_several_lines_is_one(log: Path) -> None:
    """Also where a batch ends within it, and whatever comes later is another record."""
    log.write_text("[ 1.000000] a\n             b\n             c\n[ 2.000000] d\n")
    reader = FileReader(log, now)
    assert [record.text for record in reader.read(1)] == ["a\nb\nc"]
    assert texts(reader) == ["d"]
    append(log, b"[ 3.000000] e\n             f\n")
    assert texts(reader) == ["e\nf"]
    reader.close()


def test_lines_that_are_not_understood_are_a_loss_once(log: Path) -> None:
    """Their number and the first of them."""
    append(log, b"2025/01/21 04:41:44 a\n2025/01/21 04:41:45 b\n")
    reader = FileReader(log, now)
    assert texts(reader) == ["zero", "one"]
    assert reader.losses() == [Loss("format", 2, "line 3: '2025/01/21 04:41:44 a'")]
    assert reader.losses() == []
    reader.close()


def test_saved_log_may_end_without_newline(log: Path) -> None:
    """A finished log is read to its last character."""
    append(log, b"3,2,12,-;two")
    reader = FileReader(log, now, saved=True)
    assert texts(reader) == ["zero", "one", "two"]
    assert texts(reader) == []
    reader.close()


def test_truncated_file_is_read_anew(log: Path) -> None:
    """A file that shrank has new lines at its beginning, and they are another stream."""
    reader = FileReader(log, now)
    texts(reader)
    stream = reader.stream
    log.write_bytes(b"3,0,5,-;new\n")
    assert texts(reader) == ["new"]
    assert reader.stream != stream
    reader.close()


def test_rotated_file_is_read_to_its_end_first(log: Path) -> None:
    """What was written to the old file before the rotation comes before the new file's lines."""
    reader = FileReader(log, now)
    texts(reader)
    append(log, b"3,2,12,-;last of old\n")
    log.rename(log.with_suffix(".1"))
    assert texts(reader) == ["last of old"]
    log.write_bytes(b"3,0,1,-;first of new\n")
    assert texts(reader) == ["first of new"]
    reader.close()


def test_place_goes_on_in_the_same_file(log: Path) -> None:
    """A new reader goes on where the old one was."""
    first = FileReader(log, now)
    assert first.read(1)[0].text == "zero"
    again = FileReader(log, now, first.position())
    assert texts(again) == ["one"]
    assert again.stream == first.stream
    first.close()
    again.close()


def test_place_in_another_file_is_void(log: Path) -> None:
    """A file that was replaced or cut while nobody read is read from its
    beginning, as another stream.
    """
    reader = FileReader(log, now)
    texts(reader)
    place = reader.position()
    reader.close()
    log.write_bytes(b"3,0,9,-;other\n")
    again = FileReader(log, now, place)
    assert texts(again) == ["other"]
    assert again.stream != place["stream"]
    again.close()


def test_binary_junk_between_lines(log: Path) -> None:
    """Zeros, as a crash leaves them, and other junk cost a line at most."""
    append(log, b"\x00" * 5000 + b"\n\xff\xfe\x1b]0;x\x07\n3,9,19,-;after\n")
    reader = FileReader(log, now)
    assert texts(reader)[-1] == "after"
    reader.close()


def test_line_without_end_costs_bounded_memory(log: Path) -> None:
    """Megabytes without a newline are passed over and counted as one lost line."""
    append(log, b"x" * (8 << 20) + b"\n3,9,19,-;after\n")
    tracemalloc.start()
    reader = FileReader(log, now)
    found = [text for _ in range(3) for text in texts(reader)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == ["zero", "one", "after"]
    assert reader.losses() == [Loss("oversize", 1)]
    assert peak < 4 << 20
    reader.close()


def test_file_without_numbers_gets_offsets(tmp_path: Path) -> None:
    """Lines of dmesg have no numbers: their place in the file is their number."""
    path = tmp_path / "dmesg"
    path.write_bytes(b"[ 1.000000] a\n[ 2.000000] b\n")
    reader = FileReader(path, now)
    assert [record.seq for record in reader.read(9)] == [0, 14]
    reader.close()


def test_missing_file_and_folder(tmp_path: Path) -> None:
    """What is no regular file is named in the error."""
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(UnavailableError, match=str(path)):
            FileReader(path, now)


def test_named_pipe_does_not_block(tmp_path: Path) -> None:
    """A FIFO in the place of the log is refused at once."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnavailableError, match="not a regular file"):
        FileReader(tmp_path / "pipe", now)


@pytest.mark.slow
@given(
    st.lists(st.binary(max_size=40), max_size=30),
    st.lists(st.integers(1, 60), min_size=1, max_size=10),
)
def test_lines_come_once_and_in_order_however_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], cuts: list[int]
) -> None:
    """Writes may end anywhere in a line, and the reader may be replaced at any time."""
    path = tmp_path_factory.mktemp("log") / "kmsg"
    lines = [line.replace(b"\n", b"") for line in lines]
    data = b"".join(
        b"3,%d,1,-;%s\n" % (number, line.hex().encode()) for number, line in enumerate(lines)
    )
    path.touch()
    reader = FileReader(path, now)
    found: list[str] = []
    for at in range(len(data) + 1):
        append(path, data[at : at + 1])
        if at % cuts[at % len(cuts)] == 0:
            found += [record.text for record in reader.read(3)]
            place = reader.position()
            reader.close()
            reader = FileReader(path, now, place)
    found += texts(reader)
    reader.close()
    assert found == [line.hex() for line in lines]
