"""What is pooled over devices: over all, or over those of each node where nodes are joined."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from detectors.kit.columns import Columns
from detectors.kit.stats import grouped_median
from detectors.kit.stats.peers import SIGMA

# A spread over fewer devices would follow the few. A node alone has eight, or four: of those one at
# fault moves a median little.
MIN_POOLED = 4
Number = Any  # float, or (node in sight,) where nodes are joined


def pooled_spread(
    columns: Columns, x: NDArray[np.float64], rows: NDArray[np.bool_], pools: int
) -> NDArray[np.float64]:
    """1.4826 x the median absolute deviation of x among these rows, (row,), in each pool, (pool,);
    NaN where those are fewer than ``MIN_POOLED``.
    """
    pool = np.where(rows, columns.nodes(), -1)
    middle, count = grouped_median(x, pool, pools)
    apart = np.abs(x - middle[np.maximum(pool, 0)]) if pools else x
    spread = SIGMA * grouped_median(apart, pool, pools)[0]
    return np.where(count >= MIN_POOLED, spread, np.nan)


def moved(before: Number, weight: Number, to: NDArray[np.float64]) -> Number:
    """A number of each pool moved towards a value, (pool,), by a weight; it stays where that is
    NaN.

    >>> moved(2.0, 0.5, np.array([3.0])), moved(2.0, 0.5, np.array([np.nan]))
    (2.5, 2.0)
    """
    after = np.where(np.isnan(to), before, before + weight * (to - before))
    return after if isinstance(before, np.ndarray) else float(after[0])
