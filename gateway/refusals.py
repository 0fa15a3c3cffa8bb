"""Whose messages are refused, in the log: each host once in a while, however many it sends."""

from __future__ import annotations

import logging

from pipeline.clock import SECOND_NS

log = logging.getLogger("tocsin.gateway")

REPEAT_NS = 600 * SECOND_NS
MAX_NAMED = 1000  # hosts in that time: on a bus without users anybody may write under any name


class Refusals:
    """Remembers when each host was named, by its token of the subject."""

    def __init__(self) -> None:
        self._named: dict[str, int] = {}  # the oldest first

    def log(self, token: str, why: str, now_ns: int) -> None:
        """A message was refused; times are monotonic."""
        while self._named and next(iter(self._named.values())) <= now_ns - REPEAT_NS:
            del self._named[next(iter(self._named))]
        if token in self._named or len(self._named) == MAX_NAMED:
            return
        self._named[token] = now_ns
        log.warning("a message of %.80r is refused: %s", token, why)
