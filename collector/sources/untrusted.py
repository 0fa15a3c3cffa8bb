"""Opens files that somebody else may have put there: jobs' dumps and logs, often in
directories that anyone may write.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from pathlib import Path, PurePosixPath

from collector.node.helper import client
from collector.node.helper.protocol import Kind


class UntrustedFileError(OSError):
    """The file is not what it should be: a link, no regular file, somebody else's, or too large.

    The message names it.
    """


def open_regular(
    path: Path | str,
    *,
    root: Path = Path("/"),
    owner: int | None = None,
    max_bytes: int | None = None,
) -> int:
    """A descriptor for reading.

    No link is followed in any part of the path below ``root``, which is the caller's own word.

    ``owner`` is the user id that must own the file (None: anyone). FileNotFoundError and
    PermissionError as usual, where the helper opens no such file either; UntrustedFileError for
    everything that looks like a trap. No FIFO or device is opened: that alone has effects (a
    watchdog starts, a tape is rewound).
    """
    try:
        fd = _open_below(root, path, os.O_PATH)
    except PermissionError:
        fd = client.descriptor(Kind.FILE, root, str(path))
    try:
        _check(os.fstat(fd), path, owner, max_bytes)
        return _readied(fd, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except PermissionError:
        return client.descriptor(Kind.FILE, root, str(path))
    finally:
        os.close(fd)


def read_regular(
    path: Path | str, *, max_bytes: int, root: Path = Path("/"), owner: int | None = None
) -> bytes:
    """The whole file, opened as ``open_regular`` does; UntrustedFileError where it is larger, also
    when it grows meanwhile.
    """
    with open(open_regular(path, root=root, owner=owner, max_bytes=max_bytes), "rb") as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise UntrustedFileError(f"{path}: larger than {max_bytes} bytes")
    return data


def open_fifo(path: Path | str, *, root: Path = Path("/"), owner: int | None = None) -> int:
    """A descriptor for writing to somebody's FIFO, without waiting; UntrustedFileError also
    where nobody reads from it.
    """
    try:
        fd = _open_below(root, path, os.O_PATH)
    except PermissionError:
        fd = client.descriptor(Kind.FIFO, root, str(path))
    try:
        status = os.fstat(fd)
        if not stat.S_ISFIFO(status.st_mode) or (owner is not None and status.st_uid != owner):
            raise UntrustedFileError(f"{path}: no FIFO, or somebody else's")
        return _readied(fd, os.O_WRONLY | os.O_NONBLOCK)
    except PermissionError:
        return client.descriptor(Kind.FIFO, root, str(path))
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise UntrustedFileError(f"{path}: nobody reads from it") from error
        raise
    finally:
        os.close(fd)


def names_in(path: Path | str, *, root: Path = Path("/"), most: int = 10_000) -> list[str]:
    """Names in somebody's folder, at most so many. No link is followed.

    Where it may not be listed, names in the Inspector's folder of the process whose root it is.
    """
    try:
        fd = folder_descriptor(path, root=root)
    except PermissionError:
        fd = client.descriptor(Kind.INSPECTOR, root)
    try:
        with os.scandir(fd) as entries:
            return [entry.name for _, entry in zip(range(most), entries, strict=False)]
    finally:
        os.close(fd)


def folder_descriptor(path: Path | str, *, root: Path = Path("/")) -> int:
    """Somebody's folder, to list. No link is followed."""
    return _open_below(root, path, os.O_RDONLY | os.O_DIRECTORY)


def socket_path(
    path: Path | str, *, root: Path = Path("/"), owner: int | None = None
) -> tuple[int, str]:
    """A Unix socket of somebody: a descriptor that holds it, and a path to
    connect to while that is open.
    """
    fd = _open_below(root, path, os.O_PATH)
    status = os.fstat(fd)
    if not stat.S_ISSOCK(status.st_mode) or (owner is not None and status.st_uid != owner):
        os.close(fd)
        raise UntrustedFileError(f"{path}: no socket, or somebody else's")
    return fd, f"/proc/self/fd/{fd}"


def _readied(fd: int, flags: int) -> int:
    """A descriptor for reading or writing of what one of O_PATH holds (open(2), O_PATH); of another
    one, which is ready, a copy.
    """
    if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_PATH:
        return os.open(f"/proc/self/fd/{fd}", flags | os.O_CLOEXEC)
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 0)


def _open_below(root: Path, path: Path | str, flags: int) -> int:
    directory, name = folder_and_name(path, root)
    try:
        return _open_at(directory, name, flags, path)
    finally:
        os.close(directory)


def folder_and_name(path: Path | str, root: Path) -> tuple[int, str]:
    """A descriptor (O_PATH) of the folder that a path leads to below ``root`` without a link, and
    the last part of the path. OSError as for ``open_regular``.
    """
    names = PurePosixPath(path).parts[PurePosixPath(path).is_absolute() :]
    if not names or ".." in names:
        raise UntrustedFileError(f"{path}: no file below {root}")
    directory = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in names[:-1]:
            inner = _open_at(directory, name, os.O_PATH | os.O_DIRECTORY, path)
            os.close(directory)
            directory = inner
    except OSError:
        os.close(directory)
        raise
    return directory, names[-1]


def _open_at(directory: int, name: str, flags: int, path: Path | str) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    except (FileNotFoundError, PermissionError):
        raise
    except (
        OSError
    ) as error:  # ELOOP, ENOTDIR: a link, or something else in a directory's place; ENXIO: a socket
        raise UntrustedFileError(
            f"{path}: {name} is a link, or not what it should be ({error.strerror})"
        ) from error


def _check(
    status: os.stat_result, path: Path | str, owner: int | None, max_bytes: int | None
) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise UntrustedFileError(f"{path} is a link")
    if not stat.S_ISREG(status.st_mode):
        raise UntrustedFileError(f"{path}: not a regular file")
    if owner is not None and status.st_uid != owner:
        raise UntrustedFileError(f"{path}: belongs to user {status.st_uid}, not to {owner}")
    if max_bytes is not None and status.st_size > max_bytes:
        raise UntrustedFileError(f"{path}: {status.st_size} bytes, at most {max_bytes} are read")
