"""Counters that integrate exactly: whole numbers of 64 bits plus what is left of a unit, so that
nothing is lost over months.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Counter:
    """An array of hardware counters. ``value`` is what hardware shows, uint64.

    >>> c = Counter((2,))
    >>> for _ in range(10):
    ...     c.add([0.25, 1e9 + 0.5])
    >>> c.value.tolist()
    [2, 10000000005]
    """

    __slots__ = ("_part", "value")

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.value: NDArray[np.uint64] = np.zeros(shape, np.uint64)
        self._part = np.zeros(shape)

    def add(self, amount: ArrayLike) -> None:
        """Increase by amounts that need not be whole; negative ones count as none."""
        self._part += np.maximum(amount, 0.0)
        whole = np.floor(self._part)
        self._part -= whole
        self.value += whole.astype(np.uint64)

    def reset(self, where: int | tuple[int, ...] | slice = slice(None)) -> None:
        """Back to zero, as at a reset of the device or of the driver."""
        self.value[where] = 0
        self._part[where] = 0.0
