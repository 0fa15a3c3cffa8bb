"""What numpy does slowly to small arrays: a reading of a node is eight numbers, and most of the
time goes into arguments. ``benchmarks/small_arrays.py`` has how much faster these are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def any_true(mask: NDArray[Any]) -> bool:
    """``mask.any()``.

    >>> any_true(np.array([False, True])), any_true(np.zeros((2, 0), bool))
    (True, False)
    """
    return bool(np.count_nonzero(mask))


def all_true(mask: NDArray[Any]) -> bool:
    """``mask.all()``.

    >>> all_true(np.array([False, True])), all_true(np.zeros((2, 0), bool))
    (False, True)
    """
    return bool(np.count_nonzero(mask) == mask.size)


def or_else(x: NDArray[np.float64], value: float = 0.0) -> NDArray[np.float64]:
    """``x`` with a value in place of NaN. ``numpy.nan_to_num`` would also replace what is infinite.

    >>> or_else(np.array([1.0, np.nan, np.inf])).tolist()
    [1.0, 0.0, inf]
    """
    filled: NDArray[np.float64] = np.where(x == x, x, value)  # noqa: PLR0124 - NaN is not itself
    return filled
