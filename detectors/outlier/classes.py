"""What is usual for each model of GPU: one covariance and one histogram of distances,
pooled over all GPUs of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from detectors.kit.stats import GroupSums
from detectors.outlier.shrinkage import BINS, Scatters, bin_of, tail_limit

FADE = 2.0**-20  # of the histogram per vector: it holds about a million, as the covariance does
# added to the diagonal: a difference below the unit that matters is none, however
# steady a quantity usually is
FLOOR = 1.0


class Models:
    """What is usual for each class, numbered in the order they come: the scatter and, (model, bin),
    the distances of its healthy blocks; ``first_ns`` (model,) is the elapsed ns of its first.
    """

    def __init__(self, quantities: int) -> None:
        self._quantities = quantities
        self._numbers: dict[str, int] = {}
        self._scatters, self._counts = Scatters(quantities), np.zeros((0, BINS))
        self.first_ns = np.zeros(0, np.int64)

    def numbers(self, names: Sequence[str], now_ns: NDArray[np.int64]) -> NDArray[np.intp]:
        """The numbers of classes, (name,); what was not there is new at its ``now_ns`` (name,)."""
        new = [place for place, name in enumerate(names) if name not in self._numbers]
        for place in new:
            self._numbers[names[place]] = len(self._numbers)
        if new:
            self._scatters.grow(len(new))
            self._counts = np.concatenate((self._counts, np.zeros((len(new), BINS))))
            self.first_ns = np.concatenate((self.first_ns, now_ns[new]))
        return np.array([self._numbers[name] for name in names], np.intp)

    def known(self, models: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which have learnt enough to have a covariance, (model,)."""
        return np.asarray(self._scatters.n[models] > self._quantities)

    def precision(self, models: NDArray[np.intp]) -> NDArray[np.float64]:
        """The inverse of the covariance, (model, d, d)."""
        floor = FLOOR * np.eye(self._quantities)
        return np.asarray(np.linalg.inv(self._scatters.covariance(models) + floor), np.float64)

    def limits(self, models: NDArray[np.intp], share: float) -> NDArray[np.float64]:
        """The distance that this share of its healthy blocks lies beyond, (model,)."""
        return tail_limit(self._counts[models], share)

    def learn(self, y: NDArray[np.float64], model: NDArray[np.intp]) -> None:
        """Healthy vectors (d, row), each of its model (row,)."""
        self._scatters.add(y, model)

    def count(self, d2: NDArray[np.float64], model: NDArray[np.intp]) -> None:
        """Distances of healthy vectors, (row,), each of its model (row,)."""
        sums = GroupSums(model)
        self._counts[sums.groups] *= ((1 - FADE) ** sums.count)[:, None]
        np.add.at(self._counts, (model, bin_of(d2)), 1.0)

    def state(self) -> State:
        """All models."""
        return {
            "names": text_array(list(self._numbers)),
            "first": self.first_ns.copy(),
            "moments": np.stack((self._scatters.q4, self._scatters.n), axis=1),
            "scatter": self._scatters.S.copy(),
            "counts": self._counts.copy(),
        }

    def prepare(self, state: State) -> Commit:
        """KeyError or ValueError where the arrays do not fit."""
        names = [str(name) for name in from_text_array(state["names"])]
        d = self._quantities
        first = state["first"].astype(np.int64).reshape(len(names))
        moments = state["moments"].astype(np.float64).reshape(len(names), 2)
        scatters = Scatters(d)
        scatters.S = state["scatter"].astype(np.float64).reshape(len(names), d, d)
        scatters.q4, scatters.n = moments[:, 0].copy(), moments[:, 1].copy()
        counts = state["counts"].astype(np.float64).reshape(len(names), BINS)

        def commit() -> None:
            self._numbers = {name: number for number, name in enumerate(names)}
            self._scatters, self._counts, self.first_ns = scatters, counts, first

        return commit
