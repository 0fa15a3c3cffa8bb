"""A progress bar on standard error: on a terminal only, and only for what takes longer than a
moment.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from typing import TYPE_CHECKING, TextIO

from collector.cli.terminal import console, is_terminal

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

PATIENCE_S = 0.5
ALL_HISTORY_S = 1e9  # the time left is estimated from all steps so far


class Progress:
    """Called with the share that is done, 0 to 1; ``close`` removes the bar.

    A command that prints while the bar is up prints through ``print``. Such a ``streaming`` command
    has no bar where its output goes into a pipe: what reads the pipe may write on this terminal.
    """

    def __init__(
        self, out: TextIO, *, streaming: bool = False, patience_s: float = PATIENCE_S
    ) -> None:
        self._out = out
        self._silent = not is_terminal(out) or (streaming and _is_pipe(sys.stdout))
        self._from_s = time.monotonic() + patience_s
        self._shown: tuple[int, str] = (-1, "")
        self._bar: Bar | None = None

    def __call__(self, share: float, text: str = "") -> None:
        """Draw, where the percentage or the text is another."""
        percent = int(100 * min(max(share, 0.0), 1.0))
        if self._silent or (percent, text) == self._shown or time.monotonic() < self._from_s:
            return
        self._shown = percent, text
        self._bar = self._bar or _started(self._out)
        self._bar.update(self._bar.task_ids[0], completed=percent, description=text, refresh=True)

    def print(self, line: str, out: TextIO | None = None) -> None:
        """Print a line of output, above the bar where both go to the same terminal."""
        out = out or sys.stdout
        if self._bar is not None and _same_terminal(out, self._out):
            self._bar.console.out(line, highlight=False)
        else:
            print(line, file=out, flush=out is self._out)

    def close(self) -> None:
        """Leave the line empty."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _started(out: TextIO) -> Bar:
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415 - terminals only
    from rich.progress import Progress as Bar  # noqa: PLC0415

    bar = Bar(
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
        console=console(out),
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,  # it would send standard output to standard error
        speed_estimate_period=ALL_HISTORY_S,
        get_time=time.monotonic,
    )
    bar.add_task("", total=100)
    bar.start()
    return bar


def _is_pipe(stream: TextIO) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):  # no file at all
        return False


def _same_terminal(one: TextIO, other: TextIO) -> bool:
    try:
        return one.isatty() and os.fstat(one.fileno()).st_rdev == os.fstat(other.fileno()).st_rdev
    except (OSError, ValueError):
        return one is other
