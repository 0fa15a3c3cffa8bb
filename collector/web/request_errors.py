"""What the HTTP library says about single requests: counted by kind, and a
line for the first of each.

No client can fill the log.
"""

from __future__ import annotations

import logging

from pipeline.guard import Guard

log = logging.getLogger("tocsin.web")


class RequestErrorLog(logging.Logger):
    """Stands in for aiohttp's own logger, which writes a stack trace for every malformed
    request and broken connection.
    """

    def __init__(self, guard: Guard) -> None:
        super().__init__("tocsin.web.complaints", logging.ERROR)
        self._guard = guard
        self._said: set[str] = set()

    def handle(self, record: logging.LogRecord) -> None:
        """Count one; say it where it is the first of its kind."""
        error = (record.exc_info[1] if record.exc_info else None) or RuntimeError(
            record.getMessage()
        )
        kind = type(error).__name__
        self._guard.failed("web", "request", error)
        if kind not in self._said:
            self._said.add(kind)
            log.warning(
                "request failed (further ones of this kind are only counted): %s: %.200s",
                kind,
                error,
            )
