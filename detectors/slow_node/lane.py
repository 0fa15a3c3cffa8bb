"""A node's clock against what is usual for it at its load and temperature."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detectors.kit.baseline import Limit, runs
from detectors.kit.columns import Columns
from detectors.slow_node.past import FLOOR, Past
from pipeline.small_arrays import or_else

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

WARM, HALF_LIFE = 20, 120.0  # blocks; the past of a job, as of the straggler's
# ln units: what the median of a node's clocks wanders by, at least; more while little is known.
FLOOR_WHILE_NEW, KNOWN = 0.010, 60
# Of a GPU at its power limit. Its power goes with the load and at least the square of the clock
# (voltage follows the frequency in part), so the clock gives way by half of what the load gains;
# leakage takes 0.3 to 0.8 % of the power per kelvin.
CAPPED = 0.05  # of the time at the limit: below that neither load nor heat moves the clock
PER_LOAD, PER_KELVIN = 0.5, 0.004
QUANTITIES = ("clock", "load", "heat")


class Lane:
    """Learns three quantities of each row, (row,): ln clock, ln load and temperature, absolute or
    above those of others, and judges the first.

    Its memory are the columns of ``fills``.
    """

    def __init__(
        self, columns: Columns, name: str, *limits: str, half_life: float = HALF_LIFE
    ) -> None:
        self._columns, self._name = columns, name
        self._all = tuple(self.fills(name, *limits))
        self._past = {one: Past(columns, f"{name}_{one}", half_life) for one in QUANTITIES}

    @staticmethod
    def fills(name: str, *limits: str) -> dict[str, float | int]:
        """The columns it needs."""
        pasts: dict[str, float | int] = {}
        for quantity in QUANTITIES:
            pasts |= Past.fills(f"{name}_{quantity}")
        return pasts | {f"{name}_run_{limit}": 0 for limit in limits}

    def usual(self, quantity: str) -> Floats:
        """What is usual of a quantity, (row,), NaN while that is not learnt."""
        return self._past[quantity].mean(WARM)

    @property
    def spread(self) -> Floats:
        """How much the clock wanders by itself, (row,), ln units."""
        past = self._past["clock"]
        return past.spread(np.where(past.moments.n < KNOWN, FLOOR_WHILE_NEW, FLOOR))

    def residual(self, clock: Floats, load: Floats, heat: Floats, capped: Floats) -> Floats:
        """The clock above what is usual, (row,), without what more load and more heat explain; NaN
        while that is not learnt, or at the power limit where the load is not known.
        """
        r = clock - self.usual("clock")
        more_load = np.maximum(load - self.usual("load"), 0.0)
        more_heat = or_else(np.maximum(heat - self.usual("heat"), 0.0))
        explained = np.where(capped > CAPPED, PER_LOAD * more_load + PER_KELVIN * more_heat, 0.0)
        return r + explained

    def reached(self, name: str, r: Floats, limit: Limit, sparse: Flags | bool = False) -> Flags:
        """Whether a block exceeds a limit, as so many before it did, (row,); twice as many where
        ``sparse``.
        """
        at = limit.at(self.spread)
        run = runs(self.running(name), r, at)
        self._columns[f"{self._name}_run_{name}"] = run
        return np.asarray((r < -at) & (run >= limit.blocks * np.where(sparse, 2, 1)))

    def running(self, name: str) -> NDArray[np.int64]:
        """Blocks in a row beyond a limit, (row,)."""
        run: NDArray[np.int64] = self._columns[f"{self._name}_run_{name}"]
        return run

    def learn(
        self, clock: Floats, load: Floats, heat: Floats, suspected: Flags, frozen: Flags
    ) -> None:
        """One block, as ``Past.learn``; a row whose clock is not seen learns nothing."""
        unseen = ~np.isfinite(clock)
        for quantity, x in zip(QUANTITIES, (clock, load, heat), strict=True):
            self._past[quantity].learn(np.where(unseen, np.nan, x), suspected, frozen)

    def forget(self, rows: Flags) -> None:
        """Begin again for these rows."""
        self._columns.reset(rows, *self._all)
