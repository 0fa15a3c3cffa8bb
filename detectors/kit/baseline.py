"""Baselines: one per device, a spread pooled over all of them, and run counters. The
recipe for silent slow-downs.

Peers remove what the complete job does, the baseline what this device always does, the pooled
spread how much such differences wander; an effect-size floor and persistence take away the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detectors.kit.columns import Columns
from detectors.kit.pooled import moved, pooled_spread
from detectors.kit.stateful import Numbers
from detectors.kit.stats import alpha_of

Spread = Any  # float, or (row,) where nodes are joined
SPREAD_WEIGHT = 0.01  # of one block in the pooled variance
# ln units: what silicon wanders by under load, which counts as so many blocks: sites differ by tens
START_S, START_BLOCKS = 0.01, 5
SPREAD_WARM = 5  # blocks: a mean of fewer adds a tenth to what it is measured from


@dataclass(frozen=True, slots=True)
class Limit:
    """A residual below ``-max(floor, sigmas * s)`` for ``blocks`` blocks in a row."""

    floor: float
    sigmas: float
    blocks: int

    def at(self, s: Spread) -> Spread:
        """The residual itself, positive; of joined nodes (row,)."""
        limit = self.sigmas * s
        if isinstance(limit, np.ndarray):
            return np.maximum(self.floor, limit)
        return max(self.floor, limit)


class Baseline:
    """Baseline ``b`` of block means y, running mean over the first ``warm`` blocks, then
    exponentially weighted with clipped steps.

    Its state are the columns ``{name}_b`` and ``{name}_n`` and the numbers ``{name}_s2`` and
    ``{name}_blocks``, how many that was learnt from. ``clip`` gives the largest step from s.

    >>> columns, numbers = Columns(**Baseline.fills("j")), Numbers(**Baseline.numbers("j"))
    >>> from pipeline.frame import Device
    >>> columns.place((Device("n1", "gpu", "G"),))
    >>> lane = Baseline(columns, numbers, "j", warm=2, half_life=120, clip=lambda s: 3 * s)
    >>> for y in (0.01, 0.03):
    ...     lane.learn(np.array([y]), np.array([False]))
    >>> lane.residual(np.array([-0.08])).round(6).tolist()
    [-0.1]
    """

    def __init__(
        self,
        columns: Columns,
        numbers: Numbers,
        name: str,
        *,
        warm: int,
        half_life: float,
        clip: Callable[[Spread], Spread],
    ) -> None:
        self._columns, self._numbers, self.name = columns, numbers, name
        self._warm, self._alpha, self._clip = warm, alpha_of(half_life), clip

    @staticmethod
    def fills(name: str) -> dict[str, float | int]:
        """The columns it needs."""
        return {f"{name}_b": 0.0, f"{name}_n": 0}

    @staticmethod
    def numbers(name: str) -> dict[str, float]:
        """The numbers it needs."""
        return {f"{name}_s2": START_S**2, f"{name}_blocks": 0.0}

    @property
    def b(self) -> NDArray[np.float64]:
        """Baselines, (row,)."""
        b: NDArray[np.float64] = self._columns[f"{self.name}_b"]
        return b

    @property
    def n(self) -> NDArray[np.int64]:
        """Blocks learnt, (row,)."""
        n: NDArray[np.int64] = self._columns[f"{self.name}_n"]
        return n

    @property
    def s(self) -> Spread:
        """Pooled spread of residuals; of joined nodes (row,)."""
        s = np.sqrt(self._numbers[f"{self.name}_s2"])
        return self._columns.each(s) if self._columns.joined else float(s)

    def spread(self, row: int) -> float:
        """Pooled spread of residuals where a row belongs."""
        s = self.s
        return float(s[row]) if isinstance(s, np.ndarray) else s

    def residual(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """What each row is above its baseline, (row,), NaN while that is not learnt."""
        return np.where(self.n >= self._warm, y - self.b, np.nan)

    def learn(self, y: NDArray[np.float64], frozen: NDArray[np.bool_]) -> None:
        """One block per row; NaN and frozen rows hold.

        The spread is pooled over all rows known a little: its median bears the frozen ones.
        """
        e = y - self.b
        seen = np.isfinite(e) & (self.n >= SPREAD_WARM)
        numbers, key, count = self._numbers, f"{self.name}_s2", f"{self.name}_blocks"
        blocks = numbers[count]
        spread = pooled_spread(self._columns, e, seen, np.size(blocks))
        weight = np.maximum(SPREAD_WEIGHT, 1.0 / (blocks + START_BLOCKS))
        numbers[key] = moved(numbers[key], weight, spread**2)
        numbers[count] = moved(blocks, 1.0, np.where(np.isnan(spread), np.nan, blocks + 1.0))
        learns = np.isfinite(y) & ~frozen
        limit = self._clip(self.s)
        step = np.where(
            self.n < self._warm, e / (self.n + 1.0), self._alpha * np.clip(e, -limit, limit)
        )
        np.add(self.b, step, out=self.b, where=learns)
        np.add(self.n, 1, out=self.n, where=learns)

    def forget(self, rows: NDArray[np.bool_]) -> None:
        """Begin again for these rows."""
        self._columns.reset(rows, f"{self.name}_b", f"{self.name}_n")


def runs(run: NDArray[np.int64], r: NDArray[np.float64], limit: Spread) -> NDArray[np.int64]:
    """Blocks in a row with ``r < -limit``, (row,): one up, back to 0, or held where there is no r.

    >>> runs(np.array([2, 2, 2]), np.array([-0.2, 0.0, np.nan]), 0.1).tolist()
    [3, 0, 2]
    """
    return np.where(np.isnan(r), run, np.where(r < -limit, run + 1, 0))
