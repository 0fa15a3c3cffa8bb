"""Files that may be traps: links anywhere in the path, devices, other
owners, and sizes that grow.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from collector.sources.untrusted import (
    UntrustedFileError,
    names_in,
    open_fifo,
    open_regular,
    read_regular,
    socket_path,
)

UNUSED_MAJOR = 250  # of local use (devices.txt of the kernel): opening it fails


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """A plain file two folders down."""
    path = tmp_path / "a" / "b" / "dump"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"content")
    return path


def test_a_plain_file_is_read(dump: Path, tmp_path: Path) -> None:
    """Absolute in the job's own root, as /proc/PID/root shows it."""
    assert read_regular("/a/b/dump", root=tmp_path, owner=os.getuid(), max_bytes=100) == b"content"


def test_a_link_is_not_followed(dump: Path, tmp_path: Path) -> None:
    """The last part of a path may not be a link."""
    (tmp_path / "link").symlink_to(dump)
    with pytest.raises(UntrustedFileError, match="is a link"):
        open_regular("link", root=tmp_path)


def test_a_link_in_the_middle_is_not_followed(dump: Path, tmp_path: Path) -> None:
    """A folder that is a link would lead out of a container."""
    (tmp_path / "c").symlink_to(dump.parent)
    with pytest.raises(UntrustedFileError, match="c is a link"):
        open_regular("c/dump", root=tmp_path)


@pytest.mark.parametrize("path", ["../x", "a/../../x", "", "/"])
def test_no_way_leads_out_of_the_root(path: str, tmp_path: Path) -> None:
    """Two dots are refused wherever they stand."""
    with pytest.raises(UntrustedFileError, match="no file below"):
        open_regular(path, root=tmp_path)


def test_a_fifo_is_refused_without_waiting(tmp_path: Path) -> None:
    """Nobody writes to it: an ordinary open would wait forever."""
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(UntrustedFileError, match="not a regular file"):
        open_regular("fifo", root=tmp_path)


@pytest.mark.root
def test_no_device_is_opened(tmp_path: Path) -> None:
    """Opening a watchdog starts it: a path with rank 0 behind it may name /dev/watchdog0."""
    os.mknod(tmp_path / "watchdog0", 0o020666, os.makedev(UNUSED_MAJOR, 0))
    with pytest.raises(UntrustedFileError, match="not a regular file"):
        open_regular("watchdog0", root=tmp_path)
    with pytest.raises(UntrustedFileError, match="no FIFO"):
        open_fifo("watchdog0", root=tmp_path)


def test_somebody_elses_file_is_refused(dump: Path, tmp_path: Path) -> None:
    """Folders such as /tmp are writable by anyone."""
    with pytest.raises(UntrustedFileError, match="belongs to user"):
        open_regular("a/b/dump", root=tmp_path, owner=os.getuid() + 1)


def test_a_file_that_is_too_large_is_refused(dump: Path, tmp_path: Path) -> None:
    """Before a byte of it is read."""
    with pytest.raises(UntrustedFileError, match="7 bytes"):
        read_regular("a/b/dump", root=tmp_path, max_bytes=6)


def test_a_missing_file_is_an_ordinary_error(tmp_path: Path) -> None:
    """Not there yet is no trap."""
    with pytest.raises(FileNotFoundError):
        open_regular("a/dump", root=tmp_path)


def test_no_descriptor_is_left_open(dump: Path, tmp_path: Path) -> None:
    """Neither by a success that is closed nor by a refusal."""
    before = set(Path("/proc/self/fd").iterdir())
    os.close(open_regular("a/b/dump", root=tmp_path))
    for path, owner in (("a/b/dump", os.getuid() + 1), ("a/b", None), ("a/x/dump", None)):
        with pytest.raises(OSError):  # noqa: PT011 - each for another reason
            open_regular(path, root=tmp_path, owner=owner)
    assert set(Path("/proc/self/fd").iterdir()) == before


def test_a_fifo_that_somebody_reads_is_written_to(tmp_path: Path) -> None:
    """One byte is a request."""
    os.mkfifo(tmp_path / "3.pipe")
    reader = os.open(tmp_path / "3.pipe", os.O_RDONLY | os.O_NONBLOCK)
    writer = open_fifo("3.pipe", root=tmp_path, owner=os.getuid())
    os.write(writer, b"1")
    assert os.read(reader, 9) == b"1"
    os.close(writer)
    os.close(reader)


def test_a_fifo_that_nobody_reads_is_not_waited_for(tmp_path: Path) -> None:
    """The job is gone, or never listened."""
    os.mkfifo(tmp_path / "3.pipe")
    with pytest.raises(UntrustedFileError):
        open_fifo("3.pipe", root=tmp_path)


def test_a_file_in_the_place_of_a_fifo_is_not_written_to(dump: Path, tmp_path: Path) -> None:
    """Somebody may want us to."""
    with pytest.raises(UntrustedFileError):
        open_fifo("a/b/dump", root=tmp_path)
    assert dump.read_bytes() == b"content"


def test_names_of_a_folder_are_bounded(dump: Path, tmp_path: Path) -> None:
    """A folder of millions costs no memory."""
    for n in range(20):
        (dump.parent / str(n)).touch()
    assert len(names_in("a/b", root=tmp_path, most=7)) == 7
    assert "dump" in names_in("a/b", root=tmp_path)


def test_a_socket_is_reached_through_its_descriptor(tmp_path: Path) -> None:
    """What is connected to is what was looked at, whatever takes its place meanwhile."""
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(str(tmp_path / "s"))
        server.listen()
        fd, path = socket_path("s", root=tmp_path, owner=os.getuid())
        (tmp_path / "s").rename(tmp_path / "moved")
        client.connect(path)
        os.close(fd)


def test_a_file_in_the_place_of_a_socket_is_refused(dump: Path, tmp_path: Path) -> None:
    """Before anything connects."""
    with pytest.raises(UntrustedFileError):
        socket_path("a/b/dump", root=tmp_path)
