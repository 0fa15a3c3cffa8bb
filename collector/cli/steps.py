"""How far a command of many steps is: a bar with the time left on a terminal, a line per step elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO

BAR = 30


class Steps:
    """Counts steps. Time left is that of the steps so far, taken evenly; what was done before does not count for it."""

    def __init__(self, total: int, done: int, stream: TextIO, seconds: Callable[[], float]) -> None:
        self._total, self._done, self._before = total, done, done
        self._stream, self._seconds = stream, seconds
        self._began = seconds()
        self._bar = stream.isatty()

    def step(self, name: str) -> None:
        """One more is done."""
        self._done += 1
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
        left_s = (self._seconds() - self._began) / (self._done - self._before) * (self._total - self._done)
        full = int(share * BAR)
        return f"[{'#' * full}{' ' * (BAR - full)}] {self._done}/{self._total}, {_span(left_s)} left"


def _span(seconds: float) -> str:
    """A duration as people say it.

    >>> _span(59), _span(61), _span(7300)
    ('59 s', '1 min', '2 h 1 min')
    """
    minutes = int(seconds // 60)
    if not minutes:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
