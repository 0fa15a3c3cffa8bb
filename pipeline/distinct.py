"""Distinct numbers of an array, and which of them each is, without what numpy imports for it."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", bound=np.integer)


def distinct(numbers: NDArray[T]) -> NDArray[T]:
    """The different whole numbers of an array of any shape, in order, (distinct,).

    As ``np.unique``, whose first call imports ``numpy.ma``: 1.1 MiB that the agent would keep
    (numpy 2.4, docs/performance.md).

    >>> distinct(np.array([3, 1, 3, 2])).tolist()
    [1, 2, 3]
    """
    ordered = np.sort(numbers, axis=None)
    new = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


def numbered(
    values: NDArray[np.int64] | NDArray[np.float64],
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where each different value of (row,) comes first, in the order of values, (distinct,); and
    the number of each row's value among them, (row,). NaN are all different.

    >>> first, number = numbered(np.array([3, 1, 3, 2]))
    >>> first.tolist(), number.tolist()
    ([1, 3, 0], [2, 0, 2, 1])
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    new = np.ones(len(order), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    number = np.empty_like(order)
    number[order] = np.cumsum(new) - 1
    return order[new], number
