"""Follows a regular file that holds a kernel log: saved, simulated, or
written by a syslog daemon.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from collector.sources.kmsg.lines import Lines
from collector.sources.kmsg.reader import Loss, UnavailableError, number
from collector.sources.kmsg.records import Record

CHUNK = 1 << 18
MAX_LINE = 16384  # bytes; /dev/kmsg ends at 8192, syslog daemons at 8192 by default


class FileReader:
    """Gives whole lines; keeps a partial last line until it is complete (``saved``: the
    file is complete as it is).

    A file that shrank is read from its beginning; one that was replaced is read to its end first. A
    file is the one of before a restart when inode and first line are the same and it has not become
    shorter.
    """

    def __init__(
        self,
        path: Path,
        time_ns: Callable[[], int],
        after: Mapping[str, Any] | None = None,
        *,
        saved: bool = False,
        mode: str = "file",
    ) -> None:
        self.mode = mode
        self._path = path
        self._time_ns = time_ns
        self._saved = saved
        self._losses: list[Loss] = []
        self._text = Lines()
        self._fd = -1
        self._open(after or {})

    def _open(self, after: Mapping[str, Any]) -> None:
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise UnavailableError(f"{self._path}: {error.strerror}") from error
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            os.close(fd)
            raise UnavailableError(f"{self._path}: not a regular file")
        self.close()
        self._fd, self._inode = fd, status.st_ino
        self._lives = number(after, "lives", 0)
        self._restart(0)
        self._name()
        offset = number(after, "offset", -1)
        if after.get("stream") == self.stream and 0 <= offset <= status.st_size:
            self._restart(offset)
        elif after.get("inode") == self._inode:
            self._lives += 1
            self._name()

    def _restart(self, offset: int) -> None:
        self._offset = offset  # of the first byte that is not in a line given out
        self._pending = b""
        self._skipping = False
        self._lines: deque[tuple[bytes, int]] = deque()
        self._text.begin()

    def _name(self) -> None:
        """The stream: which file this is, as far as known."""
        first = os.pread(self._fd, 512, 0).partition(b"\n")
        head = first[0] if first[1] else b""
        self._named = bool(first[1])
        digest = hashlib.blake2b(head, digest_size=8).hexdigest()
        self.stream = f"file:{self._inode}:{self._lives}:{digest}"

    def read(self, most: int) -> list[Record]:
        """See Reader. A record of several lines is given with all that are there."""
        records: list[Record] = []
        text, now_ns = self._text, self._time_ns()
        while self._lines or self._more():
            if not self._lines:
                continue
            if len(records) + text.held >= most and not text.continues(self._lines[0][0]):
                return records + text.flush()
            raw, end = self._lines.popleft()
            self._offset = end
            records += text.feed(raw, now_ns, end - len(raw) - 1)
        return records + (text.finish() if self._saved else text.flush())

    def _more(self) -> bool:
        """Read on; False at the end of the file."""
        data = os.pread(self._fd, CHUNK, self._offset + len(self._pending))
        if not data:
            return self._end()
        if not self._named:
            self._name()
        at = self._offset
        *whole, self._pending = (self._pending + data).split(b"\n")
        for raw in whole:
            at += len(raw) + 1
            self._line(raw, at)
        if len(self._pending) > MAX_LINE:
            self._skip(at)
        return True

    def _line(self, raw: bytes, end: int) -> None:
        if self._skipping or len(raw) > MAX_LINE:
            self._losses.append(Loss("oversize", 1))
            self._skipping = False
            raw = b""
        self._lines.append((raw, end))

    def _skip(self, at: int) -> None:
        """A line without end: forget what was read of it and pass over the rest, so
        that memory stays bounded.
        """
        self._skipping = True
        end = at + len(self._pending)
        self._pending = b""
        self._lines.append((b"", end))

    def _end(self) -> bool:
        if self._saved and self._skipping:
            self._losses.append(Loss("oversize", 1))
            self._skipping = False
        if self._saved and self._pending:
            self._lines.append((self._pending, self._offset + len(self._pending)))
            self._pending = b""
            return True
        if os.fstat(self._fd).st_size < self._offset:
            self._lives += 1
            self._restart(0)
            self._name()
            return True
        with contextlib.suppress(FileNotFoundError):
            if self._path.stat().st_ino != self._inode:
                self._open({"lives": self._lives})
                return True
        return False

    def position(self) -> dict[str, Any]:
        """See Reader."""
        return {
            "stream": self.stream,
            "inode": self._inode,
            "lives": self._lives,
            "offset": self._offset,
        }

    def losses(self) -> list[Loss]:
        """See Reader."""
        taken, self._losses = self._losses, []
        if self._text.unread:
            taken.append(Loss("format", self._text.unread, self._text.example))
            self._text.unread, self._text.example = 0, ""
        return taken

    def close(self) -> None:
        """See Reader."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
