"""What is pooled over devices: over all, or over those of each node where nodes are joined."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from detectors.kit.columns import Columns

MIN_POOLED = 32  # a spread over fewer devices would follow the few


def pools(
    columns: Columns, rows: NDArray[np.bool_]
) -> Iterator[tuple[int | None, NDArray[np.bool_]]]:
    """The rows of each pool with more than ``MIN_POOLED`` of these, (row,), and its node by place
    among those in sight, None where none is joined.
    """
    if not columns.joined:
        if np.count_nonzero(rows) > MIN_POOLED:
            yield None, rows
        return
    node = columns.nodes()
    for place in np.flatnonzero(np.bincount(node[rows]) > MIN_POOLED).tolist():
        yield place, rows & (node == place)


def moved(
    before: float | NDArray[np.float64], node: int | None, weight: float, to: float
) -> float | NDArray[np.float64]:
    """A number of a pool, (node,) where nodes are joined, moved towards a value by a weight."""
    if node is None:
        return before + weight * (to - before)
    after = np.array(before)
    after[node] += weight * (to - after[node])
    return after
