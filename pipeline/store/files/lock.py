"""One writer per directory: an advisory lock that the kernel lets go when its
process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
from collections.abc import Iterator
from pathlib import Path

log = logging.getLogger("tocsin.store")


class DirectoryTakenError(RuntimeError):
    """Another process works in the directory; the message names both."""


@contextlib.contextmanager
def lock(directory: Path, work: str = "agent") -> Iterator[None]:
    """Hold ``<directory>/<work>.lock`` while the block runs; the directory is
    made where it is missing.

    DirectoryTakenError where another process holds it. A disk that is full, read-only or forbidden
    is no reason not to start: it is logged once and the block runs without a lock, as no other
    process can write there either.
    """
    fd = _open(directory, work)
    if fd is None:
        yield
        return
    try:
        _take(fd, directory, work)
        yield
    finally:
        # lets go; the file stays, as removing it would let two processes lock two files of one name
        os.close(fd)


def _open(directory: Path, work: str) -> int | None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return os.open(directory / f"{work}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        log.warning("%s cannot be locked, continuing without a lock: %s", directory, error)
        return None


def _take(fd: int, directory: Path, work: str) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
        raise DirectoryTakenError(
            f"{directory} is in use: another tocsin {work} (process {holder or 'unknown'}) works "
            "in it; stop that one, or give this one a --storage.path of its own"
        ) from None
    except OSError as error:  # a file system without locks
        if error.errno not in {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}:
            raise
        log.warning(
            "%s is on a file system without locks, continuing without a lock: %s", directory, error
        )
    with contextlib.suppress(OSError):  # the number is for people; a full disk does not matter
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
