"""Progress of a command of many steps: a bar with the time left on a terminal, a line per step
elsewhere.
"""

from __future__ import annotations

from typing import TextIO

from collector.cli.progress import Progress
from collector.cli.terminal import is_terminal


class Steps:
    """Counts steps. The bar is of the work of those that are left when it begins."""

    def __init__(self, total: int, done: int, stream: TextIO, work: float) -> None:
        self._total, self._done, self._work, self._worked = total, done, work, 0.0
        self._stream = stream
        self._bar = Progress(stream, patience_s=0.0)

    def step(self, name: str, work: float) -> None:
        """One more is done."""
        self._done += 1
        self._worked += work
        text = f"{self._done}/{self._total} {name}"
        if is_terminal(self._stream):
            self._bar(self._worked / self._work, text)
        else:
            self.print(text)

    def print(self, text: str) -> None:
        """Print a line that stays."""
        self._bar.print(text, self._stream)

    def end(self) -> None:
        """Remove the bar."""
        self._bar.close()


def span(seconds: float) -> str:
    """A duration for people.

    >>> span(59), span(61), span(7300)
    ('59 s', '1 min', '2 h 1 min')
    """
    minutes = int(seconds // 60)
    if not minutes:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
