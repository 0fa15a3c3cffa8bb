"""What is usual for a GPU that idles, which the prior of a loaded one says nothing about."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detectors.kit.columns import Columns
from detectors.kit.stats import alpha_of

# Fans slow down after a job, and what it warmed up cools.
SETTLED = 30  # steady minutes
# Of the power at which it idles: a small passive card, of up to 75 W, warms up by up to 0.8 K per
# watt, and its work draws less than large ones idle with.
ALIKE_W = 5.0


class Idling:
    """Learns the level of each GPU at the power at which it idles. Needs the columns of ``fills``.

    Another power counts against what was learnt, and takes its place in the end. ``half_life`` of
    what was learnt, which is known after ``learnt``: minutes.
    """

    def __init__(self, columns: Columns, half_life: float, learnt: int) -> None:
        self._columns, self._half_life, self._learnt = columns, half_life, learnt

    @staticmethod
    def fills() -> dict[str, float | int]:
        """The columns it needs."""
        return {"idle_watts": np.nan, "idle_m": 0.0, "idle_n": 0}

    def usual(self, watts: NDArray[np.float64]) -> NDArray[np.float64]:
        """The level that is usual at this power, (row,), NaN where it is not known."""
        columns = self._columns
        known = self._alike(watts) & (columns["idle_n"] >= self._learnt)
        return np.where(known, columns["idle_m"], np.nan)

    def learn(
        self, level: NDArray[np.float64], watts: NDArray[np.float64], rows: NDArray[np.bool_]
    ) -> None:
        """Take in a minute's levels at these powers, (row,), of these ``rows``."""
        columns = self._columns
        first = rows & (columns["idle_n"] == 0)
        columns["idle_watts"] = np.where(first, watts, columns["idle_watts"])
        alike, m = rows & self._alike(watts), columns["idle_m"]
        a = np.maximum(alpha_of(self._half_life), 1.0 / (columns["idle_n"] + 1.0))
        columns["idle_m"] = np.where(alike, m + a * (level - m), m)
        counts = columns["idle_n"] + alike - (rows & ~alike)
        columns["idle_n"] = np.minimum(counts, round(self._half_life))

    def forget(self, rows: NDArray[np.bool_]) -> None:
        """Learn these again."""
        self._columns.reset(rows, *self.fills())

    def _alike(self, watts: NDArray[np.float64]) -> NDArray[np.bool_]:
        apart: NDArray[np.float64] = np.abs(watts - self._columns["idle_watts"])
        return apart < ALIKE_W
