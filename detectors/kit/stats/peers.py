"""Median and spread of peers, tolerant of missing values: what the others do now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pipeline.small_arrays import all_true, any_true

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_PADDING = 4  # a table of groups may be this much larger than what is in it
LARGE = 1 << 15  # devices from which a row fills the cache: then one row after the other
SIGMA = 1.4826  # MAD of a Gaussian times this is its standard deviation: 1/Phi^-1(3/4)


def row_medians(work: NDArray[np.float64], valid: NDArray[np.int64]) -> NDArray[np.float64]:
    """Median of the first ``valid`` values of each row once sorted, (row,); NaN for none of them.

    ``work`` (row, value) is partitioned in place; NaN lies last.
    """
    median = np.full(len(work), np.nan)
    for size in set(valid.tolist()) - {0}:
        rows = np.flatnonzero(valid == size)
        high = size // 2
        part = work if len(rows) == len(work) else work[rows]
        part.partition(high, axis=1)
        upper = part[:, high]
        # Below `high` everything is at most the upper median: for even counts the lower one
        # is the greatest of them.
        median[rows] = upper if size % 2 else (part[:, :high].max(axis=1) + upper) / 2
    return median


def median_of(values: NDArray[np.float64]) -> float:
    """Median of all values (value,); NaN where one of them is, or there is none.

    As ``np.median``, which imports ``numpy.ma``, as do ``np.nanmedian`` and ``np.unique``: 1.1 MiB
    that the agent would keep (numpy 2.4).

    >>> median_of(np.array([1.0, 4.0, 2.0, 3.0]))
    2.5
    """
    if any_true(np.isnan(values)):
        return float("nan")
    return float(row_medians(values[None].copy(), np.array([len(values)]))[0])


def median_mad(
    x: NDArray[np.float64], work: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Median and 1.4826 x median absolute deviation of each row of x (field, device), both
    (field,); NaN where none is observed.

    ``work`` is scratch of x's shape: with it nothing is allocated per device. Selection in place is
    as fast as ``np.nanmedian`` twice, or several times as fast, as the processor is
    (docs/performance.md).

    >>> median, spread = median_mad(np.array([[1.0, 2.0, 4.0, np.nan], [5.0, np.nan, 7.0, np.nan]]))
    >>> median.tolist(), spread.tolist()
    ([2.0, 6.0], [1.4826, 1.4826])
    """
    work = np.empty_like(x) if work is None else work
    if x.shape[1] > LARGE and len(x) > 1:
        rows = [median_mad(x[row : row + 1], work[:1]) for row in range(len(x))]
        medians, spreads = zip(*rows, strict=True)
        return np.concatenate(medians), np.concatenate(spreads)
    np.copyto(work, x)
    finite = np.isfinite(x)
    valid = finite.sum(axis=1)
    missing = None if valid.sum() == x.size else ~finite
    if missing is not None:  # infinity would not lie last
        np.copyto(work, np.nan, where=missing)
    median = row_medians(work, valid)
    np.abs(np.subtract(x, median[:, None], out=work), out=work)
    if missing is not None:
        np.copyto(work, np.nan, where=missing)
    return median, SIGMA * row_medians(work, valid)


def grouped_median(
    x: NDArray[np.float64], group: NDArray[np.int64], groups: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Median per group and how many were observed in it, both (groups,), for x and its group
    numbers, both (device,).

    Devices with a group below 0, and NaN, belong to none.

    >>> median, count = grouped_median(np.array([1.0, 3.0, 8.0, np.nan]), np.array([0, 0, 1, 1]), 3)
    >>> median.tolist(), count.tolist()
    ([2.0, 8.0, nan], [2, 1, 0])
    """
    grouped = group >= 0
    if not all_true(grouped):
        x, group = x[grouped], group[grouped]
    if _is_regular(group, groups):
        return _median_of_rows(x.reshape(groups, -1))
    keep = np.isfinite(x)
    values, number = x[keep], group[keep]
    count = np.bincount(number, minlength=groups)
    first = np.cumsum(count) - count
    size = int(count.max(initial=0))
    if groups * size <= MAX_PADDING * len(values) and all_true(number[1:] >= number[:-1]):
        # Groups of about one size that lie one after the other: a row each, sorted by itself.
        table = np.full((groups, size), np.inf)
        table[number, np.arange(len(values)) - first[number]] = values
        table.sort(axis=1)
        values, first = table.ravel(), np.arange(groups) * size
    else:
        values = values[np.lexsort((values, number))]
    return _middle(values, first, count), count


def _is_regular(group: NDArray[np.int64], groups: int) -> bool:
    """Whether groups of one size lie one after the other, as GPUs of nodes do."""
    size, rest = divmod(len(group), groups) if groups else (0, 1)
    return bool(size and not rest) and all_true(
        group.reshape(groups, size) == np.arange(groups)[:, None]
    )


def _median_of_rows(
    x: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """As ``grouped_median`` where each row (group, device) is a group."""
    groups, size = x.shape
    finite = np.isfinite(x)
    if all_true(finite):
        table = np.sort(x, axis=1)
        median = (table[:, (size - 1) // 2] + table[:, size // 2]) / 2
        return median, np.full(groups, size, np.int64)
    table = np.where(finite, x, np.inf)
    table.sort(axis=1)
    count = np.count_nonzero(finite, axis=1)
    return _middle(table.ravel(), np.arange(groups) * size, count), count


def _middle(
    values: NDArray[np.float64], first: NDArray[np.int64], count: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Median of each group of sorted values, (groups,), by its first place and how many it has; NaN
    for none.
    """
    if not len(values):
        return np.full(len(count), np.nan)
    last = len(values) - 1
    low = np.minimum(first + (np.maximum(count, 1) - 1) // 2, last)
    high = np.minimum(first + count // 2, last)
    median: NDArray[np.float64] = np.where(count > 0, (values[low] + values[high]) / 2, np.nan)
    return median


def peer_deviation(
    x: NDArray[np.float64], group: NDArray[np.int64], groups: int, least: int
) -> NDArray[np.float64]:
    """What each device is above the median of its group, (device,); NaN where fewer than ``least``
    of the group are observed, or no group is.

    >>> peer_deviation(np.array([1.0, 3.0, 8.0]), np.array([0, 0, 1]), 2, least=2).tolist()
    [-1.0, 1.0, nan]
    """
    if not groups:
        return np.full(len(x), np.nan)
    median, count = grouped_median(x, group, groups)
    known = group >= 0
    place = np.where(known, group, 0)
    deviation: NDArray[np.float64] = np.where(
        known & (count[place] >= least), x - median[place], np.nan
    )
    return deviation
