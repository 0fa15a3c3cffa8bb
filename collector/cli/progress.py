"""A progress bar on standard error, on a terminal only, and only for what takes longer than a moment."""

from __future__ import annotations

import time
from typing import TextIO

WIDTH = 30
PATIENCE_S = 0.5


class Progress:
    """Called with the share that is done, 0 to 1; ``close`` wipes the bar."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._shown = -1
        self._begun = time.monotonic()
        self._silent = not out.isatty()

    def __call__(self, share: float) -> None:
        """Draw, where the bar has moved."""
        percent = int(100 * min(max(share, 0.0), 1.0))
        if self._silent or percent == self._shown or time.monotonic() - self._begun < PATIENCE_S:
            return
        self._shown = percent
        done = WIDTH * percent // 100
        self._out.write(f"\r[{'#' * done}{' ' * (WIDTH - done)}] {percent:3} %")
        self._out.flush()

    def close(self) -> None:
        """Leave the line empty."""
        if self._shown >= 0:
            self._out.write("\r" + " " * (WIDTH + 8) + "\r")
            self._out.flush()
            self._shown = -1
