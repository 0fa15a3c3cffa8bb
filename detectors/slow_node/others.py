"""What the other nodes of a job do: the median of a group without the one that is compared."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def above_others(
    x: Floats, group: NDArray[np.int64], groups: int, least: int
) -> tuple[Floats, NDArray[np.int64]]:
    """What each row is above the median of the others of its group, and how many those are, both
    (row,); NaN where fewer than ``least`` others are known.

    The row itself is left out: of two or three it would be a good part of the median.

    >>> above_others(np.array([1.0, 2.0, 4.0, np.nan]), np.zeros(4, np.int64), 1, 1)[0].tolist()
    [-2.0, -0.5, 2.5, nan]
    """
    known = np.isfinite(x) & (group >= 0)
    rows = np.flatnonzero(known)
    rows = rows[np.lexsort((x[rows], group[rows]))]
    sizes = np.bincount(group[rows], minlength=groups)
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)
    others = np.repeat(sizes, sizes) - 1
    values, own = x[rows], np.arange(len(rows)) - first

    def without(place: NDArray[np.intp]) -> Floats:
        """The value at a place among the others, in their order."""
        at = np.minimum(first + place + (place >= own), len(rows) - 1)
        return np.asarray(values[at])

    enough = others >= least
    middle = np.maximum(others, 1)
    median = (without((middle - 1) // 2) + without(middle // 2)) / 2
    above, count = np.full(len(x), np.nan), np.zeros(len(x), np.int64)
    above[rows] = np.where(enough, values - median, np.nan)
    count[rows] = others
    return above, count
