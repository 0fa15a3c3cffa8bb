"""Files that are read every second: opened once, read with pread, and left alone for a while
when they cannot be read.

A read of a file that the firmware does not answer costs a command and often a line in the kernel's
log, so one that fails is tried again ever more rarely. One file's failure costs the others nothing.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pipeline.clock import SECOND_NS

T = TypeVar("T")
Pread = Callable[[int, int, int], bytes]

MAX_BYTES = 64  # the longest value, "N/A (no PMA)" and "1600 Gb/sec (4X XDR)" included, is shorter
FIRST_PAUSE_S, PAUSE_GROWTH, MAX_PAUSE_S = 10, 4, 3600
# Answers of a descriptor whose file is no longer the one in the tree: the device
# was removed or made again.
_STALE = frozenset({errno.ENODEV, errno.ESTALE, errno.EBADF, errno.ENXIO})


class UnusableError(ValueError):
    """A value that was read and is of no use; the text is the reason.

    ``for_good``: no later read will do better.
    """

    def __init__(self, reason: str, *, for_good: bool = False) -> None:
        super().__init__(reason)
        self.for_good = for_good


@dataclass(frozen=True, slots=True)
class File(Generic[T]):
    """One file. ``parse`` is strict: ValueError or UnusableError for what is no value."""

    name: str
    path: Path
    parse: Callable[[bytes], T]


@dataclass(slots=True)
class _Aside:
    """A file that is not read for now, why, and when it is tried again (monotonic ns)."""

    reason: str
    pause_s: int
    again_ns: float


class KeptFiles(Generic[T]):
    """Some files of one port.

    Files that do not exist are not supported there, and not mentioned again.

    ``fast`` takes the place of every ``parse`` as long as it raises nothing, and may let nonsense
    through: ``read_each`` is for callers that find some. ``names`` after a read and the values of
    that read belong together; it is another tuple object whenever it changed.
    """

    def __init__(
        self,
        files: Sequence[File[T]],
        now_ns: int,
        pread: Pread = os.pread,
        fast: Callable[[bytes], T] | None = None,
    ) -> None:
        self._pread = pread
        self._fast = fast
        self._files: list[File[T]] = []
        self._fds: dict[str, int] = {}
        self._aside: dict[str, _Aside] = {}
        self.names: tuple[str, ...] = ()
        self.unread: dict[str, str] = {}
        for file in files:
            try:
                self._fds[file.name] = _open(file.path)
            except FileNotFoundError:
                continue
            except OSError as error:
                self._set_aside(file.name, _reason(error), now_ns)
            self._files.append(file)
        self._arrange()

    @property
    def supported(self) -> tuple[str, ...]:
        """Names of the files that exist."""
        return tuple(file.name for file in self._files)

    def read(self, now_ns: int) -> list[T]:
        """The values, in the order of ``names`` as it is afterwards."""
        if now_ns >= self._again_ns:
            self._retry(now_ns)
        pread, fast = self._pread, self._fast
        try:
            if fast is not None:
                return [fast(pread(fd, MAX_BYTES, 0)) for fd in self._reading]
            return [
                parse(pread(fd, MAX_BYTES, 0))
                for fd, parse in zip(self._reading, self._parsers, strict=True)
            ]
        except (OSError, ValueError):
            return self.read_each(now_ns)

    def read_each(self, now_ns: int) -> list[T]:
        """The same one by one and strictly: what cannot be used is set aside."""
        values: list[T] = []
        for file in self._files:
            if file.name not in self._fds:
                continue
            try:
                values.append(self._one(file))
            except (OSError, ValueError) as error:
                for_good = isinstance(error, UnusableError) and error.for_good
                self._set_aside(file.name, _reason(error), now_ns, for_good=for_good)
        self._arrange()  # also after a success: a descriptor may be another one now
        return values

    def close(self) -> None:
        """Let go of all descriptors."""
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()
        self._arrange()

    def _one(self, file: File[T]) -> T:
        try:
            raw = self._pread(self._fds[file.name], MAX_BYTES, 0)
        except OSError as error:
            if error.errno not in _STALE:
                raise
            raw = b""
        if not raw:  # another file stands there now, or someone is writing it this instant
            os.close(self._fds.pop(file.name))
            self._fds[file.name] = _open(file.path)
            raw = self._pread(self._fds[file.name], MAX_BYTES, 0)
        return file.parse(raw)

    def _set_aside(self, name: str, reason: str, now_ns: int, *, for_good: bool = False) -> None:
        if name in self._fds:
            os.close(self._fds.pop(name))
        before = self._aside.get(name)
        pause = min(before.pause_s * PAUSE_GROWTH, MAX_PAUSE_S) if before else FIRST_PAUSE_S
        self._aside[name] = _Aside(
            reason, pause, float("inf") if for_good else now_ns + pause * SECOND_NS
        )
        self.unread[name] = reason

    def _retry(self, now_ns: int) -> None:
        for file in self._files:
            aside = self._aside.get(file.name)
            if file.name in self._fds or aside is None or now_ns < aside.again_ns:
                continue
            try:
                self._fds[file.name] = _open(file.path)
                self._one(file)
            except (OSError, ValueError) as error:
                self._set_aside(file.name, _reason(error), now_ns)
            else:
                del self._aside[file.name], self.unread[file.name]
        self._arrange()

    def _arrange(self) -> None:
        reading = [file for file in self._files if file.name in self._fds]
        names = tuple(file.name for file in reading)
        self.names = self.names if names == self.names else names
        self._reading = [self._fds[file.name] for file in reading]
        self._parsers = [file.parse for file in reading]
        waiting = (aside.again_ns for name, aside in self._aside.items() if name not in self._fds)
        self._again_ns = min(waiting, default=float("inf"))


def _open(path: Path) -> int:
    # O_NONBLOCK: what should be a file and is a FIFO must not hold the agent.
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)


def _reason(error: Exception) -> str:
    """One word for a metric label."""
    if isinstance(error, OSError):
        return errno.errorcode.get(error.errno or 0, "EIO")
    return str(error) if isinstance(error, UnusableError) else "garbage"
