"""Persistence: a condition counts once it has held so often in a row, and ends once it has
not held so often in a row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from detectors.kit.columns import Columns, Ring


class Persistence:
    """Run counters per rule and device: one up where a reading contradicts the current state, back
    to 0 where it agrees, held on NaN.

    ``after`` and ``clear`` are how many readings in a row it takes, one per rule; or how long,
    where each step is given its length as ``weight``. The counters are columns of the detector.

    >>> from pipeline.frame import Device
    >>> columns = Columns(**Persistence.fills(1))
    >>> columns.place((Device("n1", "gpu", "a"),))
    >>> runs = Persistence(columns, after=[2], clear=[3])
    >>> steps = [
    ...     runs.step(np.array([[x]]), now)
    ...     for now, x in enumerate([1.0, np.nan, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    ... ]
    >>> [
    ...     ("begins" if begins else "ends", now)
    ...     for now, (begins, ends) in enumerate(steps)
    ...     if begins.any() or ends.any()
    ... ]
    [('begins', 2), ('ends', 8)]
    """

    def __init__(self, columns: Columns, after: Sequence[int], clear: Sequence[int]) -> None:
        self._columns = columns
        self._after = np.array(after)[:, None]
        self._clear = np.array(clear)[:, None]

    @staticmethod
    def fills(rules: int) -> dict[str, Ring]:
        """The columns that this many rules need."""
        return {"run": Ring(rules, 0), "set": Ring(rules, fill=False), "began": Ring(rules, 0)}

    def step(
        self,
        holds: NDArray[np.float64],
        time_ns: int | NDArray[np.int64],
        weight: int | NDArray[np.int64] = 1,
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """One reading: ``holds`` is 1, 0 or NaN = unusable, (rule, row).

        ``time_ns`` and ``weight`` are (row,) where nodes are joined.

        Which rules begin and which end, both (rule, row).
        """
        run, is_set, began = self._columns["run"], self._columns["set"], self._columns["began"]
        usable = np.isfinite(holds)
        against = usable & ((holds > 0) != is_set)
        np.copyto(began, time_ns, where=against & ~is_set & (run == 0))
        run = np.where(against, run + weight, np.where(usable, 0, run))
        flips = against & (run >= np.where(is_set, self._clear, self._after))
        self._columns["run"] = np.where(flips, 0, run)
        self._columns["set"] = is_set ^ flips
        return flips & ~is_set, flips & is_set

    def began(self, rule: int, row: int) -> int:
        """Unix ns of the first reading of the run that set a rule."""
        return int(self._columns["began"][rule, row])

    def is_set(self, rule: int) -> NDArray[np.bool_]:
        """Where a rule is set, (row,)."""
        rows: NDArray[np.bool_] = self._columns["set"][rule]
        return rows
