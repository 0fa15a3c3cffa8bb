"""Sums over the rows of each group, all groups in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class GroupSums:
    """Sums by ``group`` (row,), which may be in any order.

    What is summed for a group does not depend, to the last bit, on which other groups there are:
    a node alone and the same node among others learn the same.

    >>> sums = GroupSums(np.array([7, 2, 7]))
    >>> sums.groups.tolist(), sums.of(np.array([[1.0, 2.0, 3.0]])).tolist()
    ([2, 7], [[2.0, 4.0]])
    """

    def __init__(self, group: NDArray[np.intp]) -> None:
        self.order = np.argsort(group, kind="stable")
        inner = group[self.order]
        begins = np.ones(len(group), np.bool_)
        np.not_equal(inner[1:], inner[:-1], out=begins[1:])
        self._starts = begins.nonzero()[0]
        self.groups: NDArray[np.intp] = inner[self._starts]  # ascending
        self.first: NDArray[np.intp] = self.order[self._starts]  # row of each
        ends = np.append(self._starts[1:], len(group))[: len(self._starts)]
        self.count = (ends - self._starts).astype(np.float64)

    def of(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums of values (..., row), (..., group)."""
        if not len(self.groups):
            return np.zeros((*values.shape[:-1], 0))
        sums: NDArray[np.float64] = np.add.reduceat(values[..., self.order], self._starts, axis=-1)
        return sums

    def products(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums of the outer products of columns of x (d, row), (group, d, d)."""
        return np.stack([self.of(one * x) for one in x]).transpose(2, 0, 1)
