"""Bounds of the numbers that jobs write into replies, logs and dumps: what is stored and summed
stays within 64 bits.
"""

from __future__ import annotations

MAX_INT64 = (1 << 63) - 1  # of the store's columns and of every JSON reader
LATEST_NS = 4_102_444_800 * 10**9  # 2100-01-01; 64 bits of nanoseconds end in 2262


def unix_time(ns: int) -> int:
    """A unix time in nanoseconds; 0, which is none, before 1970 and after 2099.

    >>> unix_time(1795168800_000000000), unix_time(253402300799_000000000), unix_time(-5)
    (1795168800000000000, 0, 0)
    """
    return ns if 0 <= ns < LATEST_NS else 0


def int32(text: str | None) -> int:
    """A number of a log line that a process id or an index can be; -1 where it is none.

    >>> int32("812"), int32("99999999999"), int32(None)
    (812, -1, -1)
    """
    value = int(text) if text and len(text) <= 11 else -1
    return value if abs(value) < 1 << 31 else -1


def clipped(number: int) -> int:
    """A sum, at most what 64 bits hold.

    >>> clipped(12), clipped(1 << 70) == MAX_INT64
    (12, True)
    """
    return min(number, MAX_INT64)
