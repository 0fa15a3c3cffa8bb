"""How far a command of many steps is: a bar with the time left on a terminal, a line per step elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO

BAR = 30


class Steps:
    """Counts steps. Time left is that of the steps so far, taken evenly; what was done before does not count for it.

    Where steps differ ``work`` is that of all that are left, in any unit, and each says its own.
    """

    def __init__(self, total: int, done: int, stream: TextIO, seconds: Callable[[], float], *, work: float | None = None) -> None:
        self._total, self._done = total, done
        self._left = float(total - done) if work is None else work
        self._worked = 0.0
        self._stream, self._seconds = stream, seconds
        self._began = seconds()
        self._bar = stream.isatty()

    def step(self, name: str, work: float = 1.0) -> None:
        """One more is done."""
        self._done += 1
        self._worked += work
        self._left = max(self._left - work, 0.0)
        if self._bar:
            self._stream.write(f"\r\x1b[K{self._line()} {name}")
        else:
            self._stream.write(f"{self._done}/{self._total} {name}\n")
        self._stream.flush()

    def say(self, text: str) -> None:
        """A line that stays."""
        self._stream.write(f"\r\x1b[K{text}\n" if self._bar else f"{text}\n")
        self._stream.flush()

    def end(self) -> None:
        """Take the bar away."""
        if self._bar:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _line(self) -> str:
        share = self._done / self._total
        left_s = (self._seconds() - self._began) / self._worked * self._left
        full = int(share * BAR)
        return f"[{'#' * full}{' ' * (BAR - full)}] {self._done}/{self._total}, {span(left_s)} left"


def span(seconds: float) -> str:
    """A duration as people say it.

    >>> span(59), span(61), span(7300)
    ('59 s', '1 min', '2 h 1 min')
    """
    minutes = int(seconds // 60)
    if not minutes:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
