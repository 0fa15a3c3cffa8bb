"""Follows a file that another process writes, line by line: through truncation,
rotation, and lines without end.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from collector.sources.untrusted import UntrustedFileError, open_regular

MAX_LINE = 1 << 16  # bytes
HEAD = 256  # bytes at the beginning by which a file is known again
FROM_THE_END = 1 << 20  # bytes: of a file that is there already, the last of this are read


class Tail:
    """The lines of one file, as raw bytes without their end; a last line is
    held back until it is whole.

    The file may be truncated, replaced or absent at any time. ``from_the_end``: of a file that is
    there at the first read, only so many last bytes are read. ``lost`` counts lines that were too
    long, ``behind`` is how many bytes the last read left, ``user`` whose file it read and ``inode``
    which, -1 before the first. Memory: one line and one read.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        root: Path = Path("/"),
        owner: int | None = None,
        from_the_end: int = FROM_THE_END,
    ) -> None:
        self.lost = self.behind = 0
        self.user = self.inode = -1
        self._path, self._root, self._owner = path, root, owner
        self._from_the_end = from_the_end
        self._fd = -1
        self._resumed: int | None = None
        self._forget()

    def read(self, max_bytes: int) -> list[bytes]:
        """Lines that became whole, of at most so many bytes more of the file.

        OSError where it cannot be opened, or read: the next read opens it again, and goes on.
        """
        if self._fd < 0:
            self._open()
        try:
            return self._more(max_bytes)
        except OSError:  # ESTALE of NFS: only another descriptor can be read
            if self._fd >= 0:
                self._resumed = self.offset
                self.close()
            raise

    def _more(self, max_bytes: int) -> list[bytes]:
        self._look()
        data = os.pread(self._fd, max_bytes, self._offset)
        if not data and self._replaced():
            self.close()
            self._from_the_end = 1 << 62  # a new file is read from its beginning
            self._open()
            data = os.pread(self._fd, max_bytes, self._offset)
        self._offset += len(data)
        status = os.fstat(self._fd)
        self.behind, self.user = max(status.st_size - self._offset, 0), status.st_uid
        self.inode = status.st_ino
        return self._lines(data)

    @property
    def offset(self) -> int:
        """Up to where lines were whole: where another reader may go on."""
        return self._offset - len(self._rest) if self._resumed is None else self._resumed

    def resume(self, offset: int) -> None:
        """Of the file that is opened next what is before this was read already, unless it is
        shorter.
        """
        self._resumed = offset

    def close(self) -> None:
        """Let go; the next read opens the file again. Safe to call twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> None:
        self._fd = open_regular(self._path, root=self._root, owner=self._owner)
        self._forget()
        size = os.fstat(self._fd).st_size
        self._offset = max(0, size - self._from_the_end)
        if self._resumed is not None:
            resumed, self._resumed = self._resumed, None
            self._from_the_end, self._head = 1 << 62, os.pread(self._fd, HEAD, 0)
            self._offset = resumed if resumed <= size else 0
            return
        self._skipping = self._offset > 0  # the first piece is the rest of some line
        self._passed = self._skipping
        self._from_the_end = 1 << 62
        self._head = os.pread(self._fd, HEAD, 0)

    def _forget(self) -> None:
        self._offset, self._rest, self._skipping, self._passed, self._head = (
            0,
            b"",
            False,
            False,
            b"",
        )

    def _look(self) -> None:
        """A file that became shorter, or begins otherwise, was written again."""
        head = os.pread(self._fd, HEAD, 0)
        if os.fstat(self._fd).st_size < self._offset or not head.startswith(self._head):
            self._forget()
        self._head = head

    def _replaced(self) -> bool:
        with contextlib.suppress(FileNotFoundError, UntrustedFileError):
            other = open_regular(self._path, root=self._root, owner=self._owner)
            try:
                return os.fstat(other).st_ino != os.fstat(self._fd).st_ino
            finally:
                os.close(other)
        return False

    def _lines(self, data: bytes) -> list[bytes]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if lines and self._skipping:
            self._skipping = False
            if b"\r" in lines[0].rstrip(b"\r"):
                lines[0] = _last_state(lines[0])
            else:
                self.lost += not self._passed
                del lines[0]
            self._passed = False
        lines = [line if len(line) <= MAX_LINE else _last_state(line) for line in lines]
        whole = [line for line in lines if len(line) <= MAX_LINE]
        self.lost += len(lines) - len(whole)
        if len(self._rest) > MAX_LINE:
            self._cut()
        return whole

    def _cut(self) -> None:
        """Of a last line that is too long its newest state is kept, or nothing."""
        state = _last_state(self._rest)
        if len(state) <= MAX_LINE:
            self._rest, self._skipping, self._passed = state, False, False
        else:
            self._rest, self._skipping = b"", True


def _last_state(line: bytes) -> bytes:
    """What is left to see of a line that is drawn again and again: a progress bar has no newline
    for hours, and the first message after it is on the same line.
    """
    return line.rstrip(b"\r").rpartition(b"\r")[2]
