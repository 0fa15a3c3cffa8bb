"""Files kept open: failures stay their own and are tried ever more rarely."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.sources.infiniband.open_files import MAX_PAUSE_S, File, KeptFiles
from collector.sources.infiniband.port import counter
from pipeline.clock import SECOND_NS
from tests.collector.sources.infiniband.sysfs import opened


class Reads:
    """os.pread that counts, and fails for the files it is told to."""

    def __init__(self) -> None:
        self.of: dict[str, int] = {}
        self.failing: dict[str, int] = {}

    def __call__(self, fd: int, count: int, offset: int) -> bytes:
        name = Path(f"/proc/self/fd/{fd}").readlink().name
        self.of[name] = self.of.get(name, 0) + 1
        if name in self.failing:
            raise OSError(self.failing[name], os.strerror(self.failing[name]))
        return os.pread(fd, count, offset)


def by_name(kept: KeptFiles[int], second: int) -> dict[str, int]:
    """One read: values by the names that hold after it."""
    values = kept.read(second * SECOND_NS)
    return dict(zip(kept.names, values, strict=True))


@pytest.fixture
def reads() -> Reads:
    """Nothing fails yet."""
    return Reads()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three files, each with the code of its name's letter."""
    for name in "abc":
        (tmp_path / name).write_text(f"{ord(name)}\n")
    return tmp_path


@pytest.fixture
def kept(folder: Path, reads: Reads) -> Iterator[KeptFiles[int]]:
    """Those files kept open, and one that does not exist."""
    files = KeptFiles([File(name, folder / name, counter) for name in "abcd"], 0, reads, int)
    yield files
    files.close()


def test_values_stand_in_the_order_of_the_names(kept: KeptFiles[int]) -> None:
    """Names and values belong together; a file that does not exist is not mentioned."""
    assert by_name(kept, 0) == {"a": 97, "b": 98, "c": 99}
    assert kept.unread == {}


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EOPNOTSUPP, errno.EIO])
def test_a_failing_file_costs_only_itself(kept: KeptFiles[int], reads: Reads, code: int) -> None:
    """The other files of the port are read on, and the reason is the kernel's own."""
    reads.failing = {"b": code}
    assert by_name(kept, 0) == {"a": 97, "c": 99}
    assert kept.unread == {"b": errno.errorcode[code]}


@pytest.mark.slow
def test_a_failing_file_is_read_ever_more_rarely(kept: KeptFiles[int], reads: Reads) -> None:
    """A day of reads every second touches a file that fails every time fewer than 40 times: the
    kernel log is not flooded.
    """
    reads.failing = {"b": errno.EINVAL}
    for second in range(86_400):
        kept.read(second * SECOND_NS)
    assert 86_400 / MAX_PAUSE_S <= reads.of["b"] < 40
    assert reads.of["a"] >= 86_400


def test_a_file_that_works_again_is_read_again(kept: KeptFiles[int], reads: Reads) -> None:
    """After its pause a file comes back to its place, and its reason goes."""
    reads.failing = {"b": errno.EINVAL}
    kept.read(0)
    reads.failing = {}
    kept.read(3600 * SECOND_NS)
    assert by_name(kept, 3601) == {"a": 97, "b": 98, "c": 99}
    assert kept.unread == {}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("N/A (no PMA)\n", "no_pma"),
        ("rubbish\n", "garbage"),
        ("\xff\n", "garbage"),
        ("12 13\n", "garbage"),
    ],
)
def test_contents_that_are_no_number(
    kept: KeptFiles[int], folder: Path, content: str, reason: str
) -> None:
    """Words instead of a number are a reason, not a value."""
    (folder / "c").write_text(content)
    kept.read(0)
    assert kept.unread == {"c": reason}
    assert kept.names == ("a", "b")


def test_a_file_made_anew_is_opened_anew(kept: KeptFiles[int], folder: Path, reads: Reads) -> None:
    """ENODEV, the answer of sysfs for a file whose device was made again, is no reason
    to lose a single reading.
    """
    stale = os.open(folder / "b", os.O_RDONLY)
    real = os.pread

    def pread(fd: int, count: int, offset: int) -> bytes:
        if fd == stale:
            raise OSError(errno.ENODEV, "No such device")
        return real(fd, count, offset)

    kept._pread = pread
    os.close(kept._fds["b"])
    kept._fds["b"] = stale
    kept._arrange()
    assert kept.read(0) == kept.read(SECOND_NS) == [97, 98, 99]


def test_a_fifo_or_a_folder_instead_of_a_file(tmp_path: Path) -> None:
    """What should be a file and is not never holds the reader."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    kept = KeptFiles([File(name, tmp_path / name, counter) for name in ("fifo", "folder")], 0)
    assert kept.read(0) == []
    assert kept.unread == {"fifo": "ESPIPE", "folder": "EISDIR"}
    kept.close()


def test_close_lets_go_of_everything(folder: Path) -> None:
    """No descriptor is left behind, after failures either."""
    (folder / "b").write_text("rubbish\n")
    kept = KeptFiles([File(name, folder / name, counter) for name in "abc"], 0)
    kept.read(0)
    assert len(opened(folder)) == 2
    kept.close()
    assert opened(folder) == []
