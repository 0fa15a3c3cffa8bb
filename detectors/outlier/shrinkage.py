"""The covariance of many quantities, shrunk so that it can be inverted, learnt one block at a time;
and how rare a distance by it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_VECTORS = 1e6  # beyond it old ones fade: a week of a hundred GPUs at one block a minute
# shares that a far tail is drawn through; so many blocks must lie beyond the second
ANCHORS, MIN_BEYOND = (1e-2, 1e-3), 5
BINS, PER_DOUBLING = 160, 8  # of the histogram of distances: up to 2^20, each 9 % wide


@dataclass(slots=True, eq=False)
class Scatter:
    """Second and fourth moments of vectors around zero: ``S`` (d, d) their mean outer product,
    ``q4`` the mean of ``||y||^4``.

    ``n`` is how many vectors they are the mean of. With these the shrinkage of Ledoit and Wolf
    needs no stored samples.
    """

    S: NDArray[np.float64]
    q4: float = 0.0
    n: float = 0.0

    def add(self, y: NDArray[np.float64]) -> None:
        """Learn vectors (sample, d)."""
        if len(y):
            self.n = min(self.n + len(y), MAX_VECTORS)
            share = min(1.0, len(y) / self.n)
            self.S += share * (y.T @ y / len(y) - self.S)
            self.q4 += share * (float(np.mean((y * y).sum(axis=1) ** 2)) - self.q4)

    def covariance(self) -> NDArray[np.float64]:
        """``(1-s)*S + s*mu*I`` with the shrinkage s that is best in the mean square, (d, d); zeros
        where nothing was learnt.

        Ledoit and Wolf (2004), J. Multivariate Analysis 88: ``mu = tr(S)/d``,
        ``s = min(b2, d2)/d2``, ``d2 = ||S - mu*I||^2``, ``b2 = (E||y||^4 - ||S||^2)/n``, norms of
        Frobenius.

        >>> scatter = Scatter(np.zeros((2, 2)))
        >>> scatter.add(np.array([[1.0, 1.0], [1.0, -1.0], [-3.0, 0.0]]))
        >>> scatter.covariance().round(3).tolist()
        [[2.167, 0.0], [0.0, 2.167]]
        """
        d = len(self.S)
        mu = float(np.trace(self.S)) / d
        off = self.S - mu * np.eye(d)
        d2 = float((off * off).sum())
        if self.n == 0 or d2 == 0:
            return self.S.copy()
        b2 = max(0.0, (self.q4 - float((self.S * self.S).sum())) / self.n)
        s = min(b2, d2) / d2
        return (1 - s) * self.S + s * mu * np.eye(d)


def distances(
    y: NDArray[np.float64], precision: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """``d2 = y'Py`` of each vector, (sample,), and what each quantity adds to it, ``y_j (Py)_j``,
    (sample, d): they sum to d2.

    >>> d2, parts = distances(np.array([[3.0, 1.0]]), np.diag([1.0, 2.0]))
    >>> d2.tolist(), parts.tolist()
    ([11.0], [[9.0, 2.0]])
    """
    parts = y * (y @ precision)
    return parts.sum(axis=1), parts


def bin_of(d2: NDArray[np.float64]) -> NDArray[np.int64]:
    """The bin of each distance in the histogram, (sample,)."""
    bins: NDArray[np.int64] = np.clip(
        PER_DOUBLING * np.log2(np.maximum(d2, 1.0)), 0, BINS - 1
    ).astype(np.int64)
    return bins


def tail_limit(counts: NDArray[np.float64], share: float) -> float:
    """The distance that this share of what was counted lies beyond, by bins (bin,); infinite where
    too few were counted to say.

    From the data and not from the chi-square law, which fleets do not follow. Below one in a
    thousand the tail is drawn on as a power law through its hundredth and thousandth: further out
    lie the faults that are not reported yet, more of them than rare healthy blocks.

    >>> counts = np.zeros(BINS)
    >>> counts[[0, 16, 24]] = 98500, 1450, 50
    >>> [round(tail_limit(counts, share), 1) for share in (0.02, 0.01, 0.001, 0.0001)]
    [1.1, 4.4, 4.4, 4.4]
    >>> tail_limit(counts / 100, 0.001)
    inf
    """
    if float(counts.sum()) * ANCHORS[1] < MIN_BEYOND:
        return float("inf")
    if share >= ANCHORS[1]:
        return _quantile(counts, share)
    near, far = (_quantile(counts, anchor) for anchor in ANCHORS)
    return float(
        far * (far / near) ** (np.log(ANCHORS[1] / share) / np.log(ANCHORS[0] / ANCHORS[1]))
    )


def _quantile(counts: NDArray[np.float64], share: float) -> float:
    """Upper end of the first bin that at most this share lies above."""
    beyond = np.cumsum(counts[::-1])[::-1] - counts
    return float(2 ** ((int(np.flatnonzero(beyond <= share * counts.sum())[0]) + 1) / PER_DOUBLING))
