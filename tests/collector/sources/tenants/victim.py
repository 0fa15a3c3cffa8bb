"""A reader that does to its child what hostile data might."""

from __future__ import annotations

import os
import signal
import sys
import time

from collector.sources.tenants.desk import Mark


class Victim:
    """Each method is a way to end."""

    def __init__(self, mark: Mark, word: str) -> None:
        self._mark, self._word, self._calls = mark, word, 0

    def calls(self, word: str) -> tuple[str, int]:
        """Its word, another one, and how often it was called in this life."""
        self._calls += 1
        return f"{self._word} {word}", self._calls

    def die(self, subject: str) -> int:
        """By a signal, while it looks at a subject of a user."""
        self._mark(subject, "user65534")
        os.kill(os.getpid(), signal.SIGSEGV)
        return 0

    def sleep(self) -> int:
        """Without end."""
        signal.pause()
        return 0

    def burn(self) -> int:
        """CPU without end."""
        while True:
            pass

    def grow(self) -> int:
        """Memory without end."""
        kept = bytearray()
        while True:
            kept += b"x" * (1 << 20)

    def fail(self) -> int:
        """An error of Python."""
        raise ValueError("no\x1b number")

    def lie(self) -> int:
        """Another type than it says."""
        return "a" * 10  # type: ignore[return-value]

    def noise(self) -> int:
        """What is no message, where messages are."""
        for fd in range(3, 10):
            try:
                os.write(fd, b"\xff" * 100)
            except OSError:
                continue
        return 0

    def chatter(self) -> int:
        """Lines on standard output, as a library may print."""
        sys.stdout.write("hello\n")
        sys.stdout.flush()
        return 7

    def flood(self) -> str:
        """More than an answer may be."""
        return "x" * (1 << 20)


def reader(mark: Mark, word: str, start: str = "") -> Victim:
    """The reader of a child. ``start``: CPU seconds that it takes to begin, or "never"."""
    if start == "never":
        signal.pause()
    while time.process_time() < float(start or 0):
        pass
    return Victim(mark, word)
