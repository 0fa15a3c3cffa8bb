"""What cannot be read of a device, in the log: a line when a reason begins and one when it has
gone, not one per reading.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from pipeline.clock import SECOND_NS
from pipeline.observation import Unread

log = logging.getLogger("tocsin.engine")

# a reason that stays away so long has gone: one that comes and goes is said once
CALM_NS = 60 * SECOND_NS
MAX_REASONS = 20  # distinguished per source


class UnreadLog:
    """The reasons of one source. What concerns no device is the source's own to say."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._seen_ns: dict[str, int] = {}

    def note(self, unread: Iterable[Unread], now_ns: int) -> None:
        """Take what one reading could not read; ``now_ns`` is monotonic."""
        examples: dict[str, list[Unread]] = {}
        for one in unread:
            if one.device:
                examples.setdefault(one.reason, []).append(one)
        for reason, ones in examples.items():
            if reason not in self._seen_ns:
                if len(self._seen_ns) >= MAX_REASONS:
                    continue
                self._begins(reason, ones)
            self._seen_ns[reason] = now_ns
        for reason in [r for r, seen_ns in self._seen_ns.items() if now_ns - seen_ns > CALM_NS]:
            del self._seen_ns[reason]
            log.info("source %s: everything affected is read again: %s", self._source, reason)

    def _begins(self, reason: str, ones: list[Unread]) -> None:
        first = ones[0]
        what = f"{first.field} of {first.device}" if first.field else first.device
        more = f" and {len(ones) - 1} more" if len(ones) > 1 else ""
        log.warning("source %s cannot read %s%s: %s", self._source, what, more, reason)
