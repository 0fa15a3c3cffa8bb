"""The machine's clocks, as they are or running faster for a rehearsal."""

from __future__ import annotations

import time
from typing import NamedTuple, Protocol

SECOND_NS = 1_000_000_000


class Clock(Protocol):
    """Time, so that tests can jump. Both in nanoseconds."""

    def time_ns(self) -> int:
        """Unix time."""
        ...

    def monotonic_ns(self) -> int:
        """CLOCK_MONOTONIC: never steps; zero is the boot of the machine, as in the kernel log."""
        ...


class Instant(NamedTuple):
    """A point in time on both clocks: ``time_ns`` unix time, for display and for the store;
    ``mono_ns`` for durations, because it is never stepped (0 where it is not known).
    """

    time_ns: int
    mono_ns: int


class SystemClock:
    """Wall and monotonic time of this machine."""

    def time_ns(self) -> int:
        """Unix time."""
        return time.time_ns()

    def monotonic_ns(self) -> int:
        """CLOCK_MONOTONIC."""
        return time.monotonic_ns()


def instant(clock: Clock) -> Instant:
    """Now, on both clocks."""
    return Instant(clock.time_ns(), clock.monotonic_ns())


class FastClock:
    """Clocks that run ``speed`` times as fast since an instant of CLOCK_MONOTONIC: a
    simulated day in minutes.

    Unix time begins ``ago_s`` seconds before that instant: what is long over by the end of the day
    is then not in the future. Processes that are given the same instant agree on the time. What
    waits for real programs (deadlines of calls and of children) keeps to the machine's clocks.

    >>> clock = FastClock(60, time.monotonic_ns() - 10 * 10**9)
    >>> 599 < (clock.time_ns() - (time.time_ns() - 10 * 10**9)) / 1e9 < 601
    True
    """

    def __init__(self, speed: float, since_ns: int, ago_s: float = 0.0) -> None:
        self.speed, self._since_ns = speed, since_ns
        self._unix_ns = time.time_ns() - time.monotonic_ns() + since_ns - round(ago_s * 1e9)

    def time_ns(self) -> int:
        """Unix time."""
        return self._unix_ns + self._passed_ns()

    def monotonic_ns(self) -> int:
        """CLOCK_MONOTONIC in the same manner."""
        return self._since_ns + self._passed_ns()

    def wait(self, seconds: float) -> None:
        """Sleep until so many of its own seconds have passed."""
        time.sleep(seconds / self.speed)

    def _passed_ns(self) -> int:
        return round((time.monotonic_ns() - self._since_ns) * self.speed)
