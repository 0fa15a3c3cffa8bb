"""What power follows: a continuous ridge regression, of all GPUs or of those of each node."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detectors.kit.columns import Columns
from detectors.kit.roll import Roll
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit
from detectors.kit.stats import GroupSums

# The voltage with the clock, and the units that switch.
CAUSES = ("clock", "tensor", "dram")
FORGET = 2.0 ** (-1 / 1440)  # a day of blocks: half-life of the regression
# The prior: ln power grows with about the square of the clock, and the weight of so many blocks of
# one GPU.
PRIOR, PRIOR_WEIGHT = np.array([2.0, 0.5, 0.2]), 1e-2
# Dynamic power goes with f V^2: more than the cube of the clock is noise. What one block may
# teach is bounded as well.
MAX_SLOPES, CLIP = np.array([4.0, 4.0, 4.0]), 0.05


class Regressions:
    """Normal equations that forget, of ln power on the causes: O(1), whatever was seen. Where nodes
    are joined each has its own.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._roll: Roll | None = None
        n = len(CAUSES)
        self._xx, self._xy, self._beta = np.zeros((1, n, n)), np.zeros((1, n)), PRIOR[None].copy()

    def join(self, roll: Roll) -> None:
        """One for each node."""
        self._roll = roll

    def beta(self, row: int) -> NDArray[np.float64]:
        """The coefficients for a row, (cause,)."""
        number = self._pools()[row]
        beta: NDArray[np.float64] = self._beta[number]
        return beta

    def predict(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the causes (cause, row) explain, (row,)."""
        numbers = self._pools()  # which may make new ones
        explained: NDArray[np.float64] = (self._beta[numbers].T * x).sum(axis=0)
        return explained

    def learn(self, x: NDArray[np.float64], y: NDArray[np.float64], use: NDArray[np.bool_]) -> None:
        """One block: causes (cause, row) and what they should explain, (row,)."""
        known = self.predict(x)
        use = use & np.isfinite(known) & np.isfinite(y)
        x, y, known = x[:, use], y[use], known[use]
        sums = GroupSums(self._pools()[use])
        pools = sums.groups
        self._xx[pools] = FORGET * self._xx[pools] + sums.products(x)
        bounded = known + np.clip(y - known, -CLIP, CLIP)
        self._xy[pools] = FORGET * self._xy[pools] + sums.of(x * bounded).T
        ridge = PRIOR_WEIGHT * np.eye(len(CAUSES))
        right = self._xy[pools] + ridge @ PRIOR
        solved = np.linalg.solve(self._xx[pools] + ridge, right[..., None])[..., 0]
        self._beta[pools] = np.clip(solved, 0.0, MAX_SLOPES)

    def _pools(self) -> NDArray[np.intp]:
        """The number of the regression that each row is of, (row,)."""
        if self._roll is None:
            return np.zeros(len(self._columns), np.intp)
        more = len(self._roll.names) - len(self._beta)
        if more > 0:
            n = len(CAUSES)
            self._xx = np.concatenate((self._xx, np.zeros((more, n, n))))
            self._xy = np.concatenate((self._xy, np.zeros((more, n))))
            self._beta = np.concatenate((self._beta, np.tile(PRIOR, (more, 1))))
        pools: NDArray[np.intp] = self._roll.now[self._columns.nodes()]
        return pools

    def state(self) -> State:
        """The normal equations; of one node as they are, of several one after the other."""
        if self._roll is None:
            return {"xx": self._xx[0], "xy": self._xy[0], "beta": self._beta[0]}
        return {"xx": self._xx, "xy": self._xy, "beta": self._beta}

    def prepare(self, state: State) -> Commit:
        """KeyError or ValueError where they are not there."""
        n = len(CAUSES)
        xx, xy, beta = (
            state["xx"].reshape(-1, n, n).copy(),
            state["xy"].reshape(-1, n).copy(),
            state["beta"].reshape(-1, n).copy(),
        )
        if not len(xx) == len(xy) == len(beta) or (self._roll is None and len(beta) != 1):
            raise ValueError("normal equations that are not of these nodes")

        def commit() -> None:
            self._xx, self._xy, self._beta = xx, xy, beta

        return commit
