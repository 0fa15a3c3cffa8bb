"""What is usual for each model of GPU: one covariance and one histogram of distances,
pooled over all GPUs of it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit, from_text_array, text_array
from detectors.outlier.shrinkage import BINS, Scatter, bin_of, tail_limit

FADE = 2.0**-20  # of the histogram per vector: it holds about a million, as the covariance does
# added to the diagonal: a difference below the unit that matters is none, however
# steady a quantity usually is
FLOOR = 1.0


class Model:
    """One class: ``scatter``, ``counts`` (bin,) of the distances of its healthy blocks, and the
    elapsed ns of its first.
    """

    def __init__(self, quantities: int, first_ns: int) -> None:
        self.scatter = Scatter(np.zeros((quantities, quantities)))
        self.counts = np.zeros(BINS)
        self.first_ns = first_ns

    def precision(self) -> NDArray[np.float64] | None:
        """The inverse of its covariance, None before it has one."""
        covariance = self.scatter.covariance()
        if self.scatter.n <= len(covariance):
            return None
        return np.asarray(np.linalg.inv(covariance + FLOOR * np.eye(len(covariance))), np.float64)

    def limit(self, share: float) -> float:
        """The distance that this share of its healthy blocks lies beyond."""
        return tail_limit(self.counts, share)

    def learn(self, y: NDArray[np.float64], d2: NDArray[np.float64] | None) -> None:
        """Healthy vectors (sample, d) and, where they could be judged,
        their distances (sample,).
        """
        self.scatter.add(y)
        if d2 is not None and len(d2):
            self.counts *= (1 - FADE) ** len(d2)
            self.counts += np.bincount(bin_of(d2), minlength=BINS)


class Models:
    """A model per class, by name."""

    def __init__(self, quantities: int) -> None:
        self._quantities = quantities
        self._of: dict[str, Model] = {}

    def of(self, name: str, now_ns: int) -> Model:
        """The model of a class, new at ``now_ns`` where there was none."""
        if name not in self._of:
            self._of[name] = Model(self._quantities, now_ns)
        return self._of[name]

    def state(self) -> State:
        """All models."""
        models = list(self._of.values())
        d = self._quantities
        return {
            "names": text_array(list(self._of)),
            "first": np.array([model.first_ns for model in models], np.int64),
            "moments": np.array([[model.scatter.q4, model.scatter.n] for model in models]).reshape(
                -1, 2
            ),
            "scatter": np.array([model.scatter.S for model in models]).reshape(-1, d, d),
            "counts": np.array([model.counts for model in models]).reshape(-1, BINS),
        }

    def prepare(self, state: State) -> Commit:
        """KeyError or ValueError where the arrays do not fit."""
        names = [str(name) for name in from_text_array(state["names"])]
        d, of = self._quantities, {}
        first = state["first"].astype(np.int64).reshape(len(names))
        moments = state["moments"].astype(np.float64).reshape(len(names), 2)
        scatter = state["scatter"].astype(np.float64).reshape(len(names), d, d)
        counts = state["counts"].astype(np.float64).reshape(len(names), BINS)
        for row, name in enumerate(names):
            model = of[name] = Model(d, int(first[row]))
            model.scatter = Scatter(
                scatter[row].copy(), float(moments[row, 0]), float(moments[row, 1])
            )
            model.counts = counts[row].copy()

        def commit() -> None:
            self._of = of

        return commit
