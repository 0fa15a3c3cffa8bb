"""Rows (before Ampere: pages) that failed in the last day, week and month, and how long the spare
ones will last at that rate.
"""

from __future__ import annotations

from math import inf, isnan

import numpy as np
from numpy.typing import NDArray

from detectors.ecc.facts import MAX_REMAPS, Memory
from detectors.kit.block_clock import BlockClock
from detectors.kit.columns import Columns, Ring
from detectors.kit.instants import Times
from pipeline.small_arrays import or_else

HOURS, DAYS = 24, 30
# A bank has 8 spare rows (NVIDIA GPU Memory Error Management). NVML names only classes; these are
# the fewest that a class can mean when "high", "partial" and "low" share out what lies between all
# and none.
MIN_SPARE = {"none": 0, "low": 1, "partial": 3, "high": 6}

MAX_ROWS = 1e15  # counted in one reading


class Wear:
    """Counts failed rows by hour and by day; the newest bin is the running one.

    >>> from pipeline.clock import Instant
    >>> from pipeline.frame import Device
    >>> columns = Columns(**Wear.fills())
    >>> columns.place((Device("n1", "gpu", "a"),))
    >>> wear = Wear(columns)
    >>> for hour in range(50):
    ...     wear.add(
    ...         np.array([1.0 if hour in (0, 48) else 0.0]),
    ...         np.array([1.0 if hour in (0, 48) else 0.0]),
    ...         Instant(0, hour * 3600 * 10**9),
    ...     )
    >>> wear.day().tolist(), wear.days(7).tolist()
    ([1], [2])
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self.hour, self.midnight = BlockClock(3600.0), BlockClock(86400.0)

    @staticmethod
    def fills() -> dict[str, Ring]:
        """The columns it needs."""
        return {"by_hour": Ring(HOURS, 0), "by_day": Ring(DAYS, 0)}

    def add(
        self,
        rows: NDArray[np.float64],
        uncorrectable: NDArray[np.float64],
        at: Times,
    ) -> None:
        """New failed rows of any cause, and those by uncorrectable errors,
        both (row,); NaN is none.
        """
        for clock, name in ((self.hour, "by_hour"), (self.midnight, "by_day")):
            for bins, _ in clock.each(clock.turned_at(at), at):
                self._turn(name, bins)
        self._columns["by_hour"][0] += _whole(rows)
        self._columns["by_day"][0] += _whole(uncorrectable)

    def day(self) -> NDArray[np.int64]:
        """Rows of any cause in the last 24 hours, (row,)."""
        total: NDArray[np.int64] = self._columns["by_hour"].sum(axis=0)
        return total

    def days(self, n: int) -> NDArray[np.int64]:
        """Rows by uncorrectable errors in the last n days, (row,)."""
        total: NDArray[np.int64] = self._columns["by_day"][:n].sum(axis=0)
        return total

    def _turn(self, name: str, bins: int) -> None:
        if bins:
            ring = self._columns[name]
            keep = max(0, len(ring) - bins)
            ring[len(ring) - keep :] = ring[:keep].copy()
            ring[: len(ring) - keep] = 0


def days_left(memory: Memory, row: int) -> float:
    """Days until the worst bank's spare rows, or those of the whole board, are used up at the rate
    of the last 30 days; inf without any.

    All errors are taken to fall into that bank: errors cluster, so this is the careful answer.
    """
    pace = float(memory.month[row]) / DAYS
    if isnan(pace) or pace <= 0:
        return inf
    worst = next((rows for name, rows in MIN_SPARE.items() if getattr(memory, name)[row] > 0), 8)
    board = MAX_REMAPS - float(or_else(memory.uncorrectable[row]))
    return max(0.0, min(worst, board)) / pace


def _whole(rows: NDArray[np.float64]) -> NDArray[np.int64]:
    """A driver may report any number: sums of a month must not overflow."""
    return np.clip(or_else(rows), 0, MAX_ROWS).astype(np.int64)
