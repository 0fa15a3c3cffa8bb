"""A condition that comes and goes: it counts once it has held in so many of the last readings, and
ends once it has not held so often in a row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detectors.kit.columns import Columns, Ring


class RecentBlocks:
    """When the condition held among the last readings of each device; a reading that is NaN is
    none.

    Where persistence.py asks for a run, this bridges what a job does in between. Columns of the
    detector hold all of it.

    >>> from pipeline.frame import Device
    >>> columns = Columns(**RecentBlocks.fills(4))
    >>> columns.place((Device("n1", "gpu", "a"),))
    >>> recent = RecentBlocks(columns, after=2, clear=3)
    >>> steps = [
    ...     recent.step(np.array([x]), np.array([now]))
    ...     for now, x in enumerate([1.0, 0.0, np.nan, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0], start=1)
    ... ]
    >>> [
    ...     ("begins" if begins else "ends", now)
    ...     for now, (begins, ends) in enumerate(steps, start=1)
    ...     if begins.any() or ends.any()
    ... ]
    [('begins', 4), ('ends', 10)]
    """

    def __init__(self, columns: Columns, after: int, clear: int) -> None:
        self._columns, self._after, self._clear = columns, after, clear

    @staticmethod
    def fills(readings: int) -> dict[str, bool | Ring]:
        """The columns that it needs: it looks back over so many readings."""
        return {"held_ns": Ring(readings, 0), "set": False}  # 0: it did not hold

    def step(
        self, holds: NDArray[np.float64], time_ns: NDArray[np.int64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """One reading: ``holds`` is 1, 0 or NaN = unusable, at ``time_ns``, both (row,).

        Where it begins and where it ends, (row,).
        """
        held, is_set = self._columns["held_ns"], self._columns["set"]
        usable, now = np.isfinite(holds), holds > 0
        moved = np.vstack((np.where(now, time_ns, 0), held[:-1]))
        held = np.where(usable, moved, held)
        begins = now & ~is_set & (np.count_nonzero(held, axis=0) >= self._after)
        ends = usable & is_set & (np.count_nonzero(held[: self._clear], axis=0) == 0)
        self._columns["held_ns"] = held
        self._columns["set"] = (is_set | begins) & ~ends
        return begins, ends

    def began(self, row: int) -> int:
        """Unix ns of the first of the readings in sight in which it held."""
        held = self._columns["held_ns"][:, row]
        return int(held[held > 0].min())
