"""A token bucket: how fast requests may come."""

from __future__ import annotations


class Bucket:
    """Lets one request pass per interval, and as many as ``burst`` at once after a pause.

    >>> bucket = Bucket(1.0, 2, now_s=0.0)
    >>> [bucket.take(at) for at in (0.0, 0.0, 0.0, 1.0, 1.5)]
    [True, True, False, True, False]
    """

    def __init__(self, interval_s: float, burst: int, *, now_s: float) -> None:
        self._interval_s, self._burst = interval_s, burst
        self._tokens, self._at_s = float(burst), now_s

    def take(self, now_s: float) -> bool:
        """Whether a request at this moment (monotonic seconds) may pass; it is counted if so."""
        self._tokens = min(
            self._tokens + (now_s - self._at_s) / self._interval_s, float(self._burst)
        )
        self._at_s = now_s
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True
