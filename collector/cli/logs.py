"""The agent's log on standard error: logfmt or JSON lines, with priorities where the journal reads them."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TextIO

# <linux/kern_levels.h> and sd-daemon(3): the journal takes a line's priority from a leading <n>.
PRIORITIES = ((logging.ERROR, "<3>"), (logging.WARNING, "<4>"), (logging.INFO, "<6>"), (0, "<7>"))


class Lines(logging.Formatter):
    """One record, one line, whatever is in it: control characters are escaped, so no text can forge a line of its own."""

    def __init__(self, form: str, *, priorities: bool) -> None:
        super().__init__()
        self._form = form
        self._priorities = priorities

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        message = record.getMessage()
        if record.exc_info:
            message += "\n" + self.formatException(record.exc_info)
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        parts = {"ts": time, "level": record.levelname.lower(), "logger": record.name, "msg": message}
        line = json.dumps(parts) if self._form == "json" else " ".join(f"{key}={_word(value)}" for key, value in parts.items())
        return self._priority(record) + line if self._priorities else line

    @staticmethod
    def _priority(record: logging.LogRecord) -> str:
        return next(prefix for level, prefix in PRIORITIES if record.levelno >= level)


def _word(value: str) -> str:
    plain = value.isascii() and value.isprintable() and value and not set(value) & set(' "=\\')
    return value if plain else json.dumps(value)


def set_up(level: str, form: str, stream: TextIO | None = None, environ: Mapping[str, str] | None = None) -> None:
    """Send the whole process's log to a stream (standard error), in place of what was set up before."""
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(Lines(form, priorities=in_journal(stream, os.environ if environ is None else environ)))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    logging.raiseExceptions = False  # a closed standard error must not end the agent


def in_journal(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether a stream is the journal itself: $JOURNAL_STREAM names its device and inode (systemd.exec(5))."""
    try:
        stat = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return environ.get("JOURNAL_STREAM") == f"{stat.st_dev}:{stat.st_ino}"
