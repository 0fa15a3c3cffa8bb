"""Real servers that tests start in the foreground: a death is reported at once,
with the tail of the log.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from tests.wait import PATIENCE_S, until

T = TypeVar("T")

TAIL = 2000  # characters of a log that are shown: the last lines name the cause
GRACE_S = 15.0  # between SIGTERM and SIGKILL


class Server:
    """A running program whose output goes to a file.

    Use as a context: it is ended whatever happens.
    """

    def __init__(
        self,
        argv: Sequence[str],
        log: Path,
        *,
        name: str = "",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: int = subprocess.DEVNULL,
    ) -> None:
        self.name = name or Path(argv[0]).name
        self.log_path = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                list(argv),
                stdin=stdin,
                stdout=output,
                stderr=output,
                env=None if env is None else dict(env),
                cwd=cwd,
            )

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def log(self) -> str:
        """Everything it has written so far."""
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def death(self) -> str:
        """How it ended, with the tail of its log; empty while it runs."""
        code = self.process.poll()
        if code is None:
            return ""
        return f"{self.name} ended with exit code {code}:\n{self.log[-TAIL:] or '(no output)'}"

    def until(self, condition: Callable[[], T], what: str, seconds: float = PATIENCE_S) -> T:
        """Return the first true answer of ``condition``; AssertionError at once
        when the server has ended.
        """
        return until(condition, what, seconds, servers=[self])

    def end(self) -> None:
        """Ask it to end, then kill it."""
        self.process.terminate()
        try:
            self.process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(PATIENCE_S)
        if self.process.stdin:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
