"""What the other nodes of a job do: the median of a group without the one that is compared."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def above_others(
    x: Floats, group: NDArray[np.int64], groups: int, least: int, sound: NDArray[np.bool_]
) -> tuple[Floats, NDArray[np.int64]]:
    """What each row is above the median of the ``sound`` others of its group, and how many those
    are, both (row,); NaN where fewer than ``least`` of them are known.

    The row itself is left out: of two or three it would be a good part of the median.

    >>> above_others(
    ...     np.array([1.0, 2.0, 4.0, np.nan]), np.zeros(4, np.int64), 1, 1, np.ones(4, np.bool_)
    ... )[0].tolist()
    [-2.0, -0.5, 2.5, nan]
    """
    known = np.isfinite(x) & (group >= 0)
    above, count = np.full(len(x), np.nan), np.zeros(len(x), np.int64)
    rows, ordered = np.flatnonzero(known), np.flatnonzero(known & sound)
    if not len(ordered):
        return above, count
    ordered = ordered[np.lexsort((x[ordered], group[ordered]))]
    values = x[ordered]
    sizes = np.bincount(group[ordered], minlength=groups)
    first = np.cumsum(sizes) - sizes
    own = np.full(len(x), len(x))  # the place of a sound row in its group
    own[ordered] = np.arange(len(ordered)) - first[group[ordered]]
    of, own = group[rows], own[rows]
    others = sizes[of] - sound[rows]

    def without(place: NDArray[np.intp]) -> Floats:
        """The value at a place among the others, in their order."""
        at = np.minimum(first[of] + place + (place >= own), len(values) - 1)
        return np.asarray(values[at])

    middle = np.maximum(others, 1)
    median = (without((middle - 1) // 2) + without(middle // 2)) / 2
    above[rows] = np.where(others >= least, x[rows] - median, np.nan)
    count[rows] = others
    return above, count
