"""The level that all peers run at: how they differ from each other holds for that level only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detectors.kit.columns import Columns
from detectors.kit.stats import alpha_of

# ln units. A median of eight GPUs wanders by half a percent, and one of them that fails moves it by
# less than one; locks, caps and phases of another load move it by much more.
STEP = 0.025
HALF_LIFE = 120.0  # blocks, as the lane that it goes with
SETTLED = 20  # blocks in a row at another level: it is the level now


class Regime:
    """Separates blocks at the level at which a row's baseline was learnt from those at another:
    these are neither judged nor learnt from.

    Locked or capped clocks are alike, free ones spread with their silicon; so a baseline of one
    does not apply to the other, even where the lock cannot be read. After ``SETTLED`` blocks the
    new level is taken as it is and the baseline must be learnt again.

    >>> from pipeline.frame import Device
    >>> columns = Columns(**Regime.fills())
    >>> columns.place((Device("n1", "gpu", "G"),))
    >>> regime = Regime(columns)
    >>> steps = [regime.step(np.array([level])) for level in (7.5, 7.51, *[7.2] * 20, 7.2)]
    >>> (
    ...     [bool(here[0]) for here, _ in steps].count(False),
    ...     [bool(moved[0]) for _, moved in steps].index(True),
    ... )
    (20, 21)
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    @staticmethod
    def fills() -> dict[str, float | int]:
        """The columns it needs."""
        return {"level": np.nan, "elsewhere": 0}

    def forget(self, rows: NDArray[np.bool_]) -> None:
        """The next block of these rows sets their level."""
        self._columns.reset(rows, "level", "elsewhere")

    def step(self, level: NDArray[np.float64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """A block's median of the peers, (row,): which rows are at their level, and which have just
        been given another; both (row,).
        """
        columns = self._columns
        usual = np.where(np.isnan(columns["level"]), level, columns["level"])
        away = np.abs(level - usual) > STEP
        here = np.abs(level - usual) <= STEP
        elsewhere = np.where(
            away, columns["elsewhere"] + 1, np.where(here, 0, columns["elsewhere"])
        )
        moved = elsewhere >= SETTLED
        usual = np.where(here, usual + alpha_of(HALF_LIFE) * (level - usual), usual)
        columns["level"] = np.where(moved, level, usual)
        columns["elsewhere"] = np.where(moved, 0, elsewhere)
        return here, moved
