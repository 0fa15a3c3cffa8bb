"""From the kernel's time stamps to the clocks of the agent."""

from __future__ import annotations


class KernelTime:
    """The kernel stamps its log with a clock that is never corrected: it drifts from
    CLOCK_MONOTONIC by seconds a month.

    What is first seen in a read that follows a read to the end of the log happened between the two.
    So each such record bounds the offset between the clocks, and the bound is kept for those after
    it. All numbers are nanoseconds of CLOCK_MONOTONIC.
    """

    def __init__(self) -> None:
        self._offset = 0

    def monotonic(self, usec: int, earliest: int, latest: int) -> int:
        """When a record with the kernel time ``usec`` happened, given that it was between
        ``earliest`` and ``latest``.

        >>> clock = KernelTime()
        >>> clock.monotonic(
        ...     5_000_000, earliest=7_000_000_000, latest=8_000_000_000
        ... )  # the kernel's clock is 2 s late
        7000000000
        >>> clock.monotonic(6_500_000, earliest=8_000_000_000, latest=9_000_000_000)
        8500000000
        """
        at = usec * 1000 + self._offset
        within = min(max(at, earliest), latest)
        self._offset += within - at
        return within


def saved_time(usec: int, newest_usec: int, written_ns: int) -> int:
    """Unix time of a record of a log of another boot or machine: the log was written when its
    newest record was printed.

    >>> saved_time(4_000_000, newest_usec=5_000_000, written_ns=9_000_000_000)
    8000000000
    """
    return written_ns - (newest_usec - usec) * 1000
