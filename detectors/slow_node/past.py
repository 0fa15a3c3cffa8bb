"""What is usual of a quantity, of which a suspicion that ended by itself is a part."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detectors.kit.columns import Columns
from detectors.kit.stats import alpha_of
from detectors.kit.stats.moments import Moments, ew_update

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

FLOOR = 0.006  # ln units: what the median of a node's clocks wanders by, at least
PARTS = {"m": 0.0, "v": 0.0, "n": 0}  # mean, variance and number of samples


class Past:
    """Mean and spread of a quantity of each row, (row,), exponentially weighted.

    What is seen under suspicion counts once the suspicion is over, and is forgotten where it became
    a finding. If it never counted, a clock that falls for two minutes in three would teach its high
    third alone, and the others would be a fault one day.

    ``half_life`` is in blocks. Its memory are the columns of ``fills``: what counts, and what will
    if the suspicion ends.
    """

    def __init__(self, columns: Columns, name: str, half_life: float) -> None:
        self._columns, self._name, self._alpha = columns, name, alpha_of(half_life)

    @staticmethod
    def fills(name: str) -> dict[str, float | int]:
        """The columns it needs."""
        return {f"{one}_{part}": x for one in (name, f"{name}_later") for part, x in PARTS.items()}

    @property
    def moments(self) -> Moments:
        """What counts."""
        return self._of(self._name)

    def mean(self, warm: int) -> Floats:
        """The usual value, (row,), NaN before so many samples."""
        return np.where(self.moments.n >= warm, self.moments.m, np.nan)

    def spread(self, floor: float | Floats) -> Floats:
        """How much it wanders by itself, (row,), at least ``floor``."""
        return np.maximum(np.sqrt(self.moments.v), floor)

    def learn(self, x: Floats, suspected: Flags, frozen: Flags) -> None:
        """One sample of each row; NaN changes nothing, frozen rows lose what was suspected."""
        now, later = self.moments, self._of(f"{self._name}_later")
        ew_update(later, x, self._alpha, FLOOR, frozen)
        counts = ~suspected & ~frozen
        for kept, learnt in zip(_parts(now), _parts(later), strict=True):
            np.copyto(kept, learnt, where=counts)
            np.copyto(learnt, kept, where=frozen)

    def forget(self, rows: Flags) -> None:
        """Begin again for these rows."""
        self._columns.reset(rows, *self.fills(self._name))

    def _of(self, name: str) -> Moments:
        m, v, n = (self._columns[f"{name}_{part}"] for part in PARTS)
        return Moments(m, v, n)


def _parts(moments: Moments) -> tuple[Floats, Floats, NDArray[np.int64]]:
    return moments.m, moments.v, moments.n
