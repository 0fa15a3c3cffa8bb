"""Keeps the place in the kernel log over restarts, so that an event is
neither lost nor reported twice.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from collector.node.state import State

DOCUMENT = "kernel_log"
LAG_NS = 5_000_000_000  # what was given out may still be on its way to those who keep it: 5 reads
EVERY_NS = 1_000_000_000


class Bookmark:
    """Writes a place at most every second, and only one that is ``LAG_NS`` old.

    After an orderly end (``close``) the place is exact. After a crash the last seconds are read
    again, never skipped: their events come with the same stream and number as the first time, and
    counters and the store know them by that (pipeline/xid/once.py).
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self.saved: dict[str, Any] = _sound(state.load(DOCUMENT))
        self._waiting: deque[tuple[int, dict[str, Any]]] = deque()
        self._latest: dict[str, Any] = self.saved
        self._saved_at = 0

    def set(self, place: dict[str, Any], mono_ns: int) -> None:
        """The place after everything that is being given out now."""
        if place != self._latest:
            self._latest = place
            if not self._waiting or mono_ns - self._waiting[-1][0] >= EVERY_NS:
                self._waiting.append((mono_ns, place))

    def save_due(self, mono_ns: int) -> None:
        """Write the newest place that is old enough. Called before new events are given out."""
        due: dict[str, Any] | None = None
        while self._waiting and mono_ns - self._waiting[0][0] >= LAG_NS:
            due = self._waiting.popleft()[1]
        if not self._waiting and due is not None and due != self._latest:
            self._waiting.append((mono_ns, self._latest))
        if due is not None and due != self.saved:
            self._save(due)

    def close(self) -> None:
        """Write the exact place."""
        self._waiting.clear()
        if self._latest != self.saved:
            self._save(self._latest)

    def _save(self, place: dict[str, Any]) -> None:
        self.saved = place
        self._state.save(DOCUMENT, place)


_WANTED = {
    "boot_id": str,
    "places": dict,
    "held": dict,
    "uuids": dict,
    "previous": list,
    "mode": str,
    "time_ns": int,
}


def _sound(document: dict[str, Any]) -> dict[str, Any]:
    """The document without entries that are not what we write: a place that cannot
    be understood is no place.
    """
    sound: dict[str, Any] = {
        name: value
        for name, value in document.items()
        if isinstance(value, _WANTED.get(name, type(None)))
    }
    for name, kind in (("places", dict), ("held", list), ("uuids", str)):
        sound[name] = {
            key: value for key, value in sound.get(name, {}).items() if isinstance(value, kind)
        }
    return sound
