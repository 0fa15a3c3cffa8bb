"""The agent's log on standard error: logfmt or JSON lines, with priorities
where the journal reads them.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TextIO

# <linux/kern_levels.h> and sd-daemon(3): the journal takes a line's priority from a leading <n>.
PRIORITIES = ((logging.ERROR, "<3>"), (logging.WARNING, "<4>"), (logging.INFO, "<6>"), (0, "<7>"))


class Lines(logging.Formatter):
    """One record, one line, whatever is in it: control characters are escaped, so no text can
    forge a line of its own.

    A record may carry a ``document``, fields of its own that a JSON line has as they are: a finding
    in words is its summary there.
    """

    def __init__(self, form: str, *, priorities: bool) -> None:
        super().__init__()
        self._form = form
        self._priorities = priorities

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        message = record.getMessage()
        if record.exc_info:
            message += "\n" + self.formatException(record.exc_info)
        time = (
            datetime.fromtimestamp(record.created, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z")
        )
        parts = {
            "ts": time,
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": message,
        }
        if self._form == "json":
            line = json.dumps(parts | getattr(record, "document", {}))
        else:
            line = " ".join(f"{key}={_word(value)}" for key, value in parts.items())
        return self._priority(record) + line if self._priorities else line

    @staticmethod
    def _priority(record: logging.LogRecord) -> str:
        return next(prefix for level, prefix in PRIORITIES if record.levelno >= level)


class Sparing(logging.Filter):
    """Lets the same line of a library through once a minute, with how many were left out before it.

    Our own say what changes, and pass.

    Without free file descriptors asyncio alone writes a thousand lines a second.
    """

    EVERY_S, MAX_KINDS, ALIKE = 60.0, 64, 100  # lines with the same first 100 characters are alike

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._said: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is written."""
        if record.name.partition(".")[0] == "tocsin":
            return True
        key, now = (record.name, str(record.msg)[: self.ALIKE]), self._clock()
        at, left_out = self._said.get(key, (now - self.EVERY_S, 0))
        if now - at < self.EVERY_S:
            self._said[key] = (at, left_out + 1)
            return False
        if len(self._said) >= self.MAX_KINDS:
            self._said.clear()
        self._said[key] = (now, 0)
        if left_out:
            record.msg, record.args = (
                f"{record.getMessage()} ({left_out} more like it were left out)",
                None,
            )
        return True


def _word(value: str) -> str:
    plain = value.isascii() and value.isprintable() and value and not set(value) & set(' "=\\')
    return value if plain else json.dumps(value)


def set_up(
    level: str, form: str, stream: TextIO | None = None, environ: Mapping[str, str] | None = None
) -> None:
    """Send the whole process's log to a stream (standard error), in place
    of what was set up before.
    """
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.addFilter(Sparing())
    handler.setFormatter(
        Lines(form, priorities=in_journal(stream, os.environ if environ is None else environ))
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    logging.raiseExceptions = False  # a closed standard error must not end the agent


def in_journal(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether a stream is the journal itself: $JOURNAL_STREAM names its device and
    inode (systemd.exec(5)).
    """
    try:
        stat = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return environ.get("JOURNAL_STREAM") == f"{stat.st_dev}:{stat.st_ino}"
