"""The place of each of some reads among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Longs = NDArray[np.int64]


class Ticks:
    """Numbers reads in their order; of all reads of a stretch these may be few.

    >>> ticks = Ticks(np.array([7, 3, 9]))
    >>> ticks.of(np.array([3, 4, 9, 12])).tolist(), ticks.number
    ([1, -1, 2, -1], {7: 0, 3: 1, 9: 2})
    """

    def __init__(self, reads: Longs) -> None:
        self.number = {read: place for place, read in enumerate(reads.tolist())}
        self._order = np.argsort(reads, kind="stable")
        self._sorted = reads[self._order]

    def of(self, reads: Longs) -> Longs:
        """The place of each, (read,); -1 for one that is none of them."""
        if not len(self._sorted):
            return np.full(len(reads), -1, np.int64)
        place = np.minimum(np.searchsorted(self._sorted, reads), len(self._sorted) - 1)
        return np.where(self._sorted[place] == reads, self._order[place], -1)
