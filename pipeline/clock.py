"""The machine's clocks."""

from __future__ import annotations

import time


class SystemClock:
    """Wall and monotonic time of this machine."""

    def time_ns(self) -> int:
        """Unix time."""
        return time.time_ns()

    def monotonic_ns(self) -> int:
        """CLOCK_MONOTONIC."""
        return time.monotonic_ns()
