"""The covariance of many quantities, shrunk so that it can be inverted, learnt one block at a time;
and how rare a distance by it is: of several models at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from detectors.kit.stats import GroupSums

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_VECTORS = 1e6  # beyond it old ones fade: a week of a hundred GPUs at one block a minute
# shares that a far tail is drawn through; so many blocks must lie beyond the second
ANCHORS, MIN_BEYOND = (1e-2, 1e-3), 5
BINS, PER_DOUBLING = 160, 8  # of the histogram of distances: up to 2^20, each 9 % wide


class Scatters:
    """Of each of several models second and fourth moments of vectors around zero: ``S``
    (model, d, d) their mean outer product, ``q4`` (model,) the mean of ``||y||^4``.

    ``n`` (model,) is of how many vectors they are the mean. With these the shrinkage of Ledoit and
    Wolf needs no stored samples.
    """

    def __init__(self, quantities: int, models: int = 0) -> None:
        self.S = np.zeros((models, quantities, quantities))
        self.q4, self.n = np.zeros(models), np.zeros(models)

    def grow(self, more: int) -> None:
        """New models, that have learnt nothing."""
        self.S = np.concatenate((self.S, np.zeros((more, *self.S.shape[1:]))))
        self.q4, self.n = (np.concatenate((old, np.zeros(more))) for old in (self.q4, self.n))

    def add(self, y: NDArray[np.float64], model: NDArray[np.intp]) -> None:
        """Learn vectors (d, row), each of its model (row,)."""
        sums = GroupSums(model)
        models, count = sums.groups, sums.count
        self.n[models] = np.minimum(self.n[models] + count, MAX_VECTORS)
        share = np.minimum(1.0, count / self.n[models])
        moment = sums.products(y) / count[:, None, None]
        self.S[models] += share[:, None, None] * (moment - self.S[models])
        fourth = sums.of((y * y).sum(axis=0) ** 2) / count
        self.q4[models] += share * (fourth - self.q4[models])

    def covariance(self, models: NDArray[np.intp]) -> NDArray[np.float64]:
        """``(1-s)*S + s*mu*I`` with the shrinkage s that is best in the mean square, (model, d, d);
        zeros where nothing was learnt.

        Ledoit and Wolf (2004), J. Multivariate Analysis 88: ``mu = tr(S)/d``,
        ``s = min(b2, d2)/d2``, ``d2 = ||S - mu*I||^2``, ``b2 = (E||y||^4 - ||S||^2)/n``, norms of
        Frobenius.

        >>> scatters = Scatters(2, models=1)
        >>> scatters.add(np.array([[1.0, 1.0, -3.0], [1.0, -1.0, 0.0]]), np.zeros(3, np.intp))
        >>> scatters.covariance(np.array([0])).round(3).tolist()
        [[[2.167, 0.0], [0.0, 2.167]]]
        """
        scatter, d = self.S[models], self.S.shape[1]
        even = np.trace(scatter, axis1=1, axis2=2)[:, None, None] / d * np.eye(d)
        d2 = ((scatter - even) ** 2).sum(axis=(1, 2))
        n = np.maximum(self.n[models], 1.0)
        b2 = (self.q4[models] - (scatter * scatter).sum(axis=(1, 2))) / n
        s = np.clip(b2 / np.where(d2 > 0, d2, 1.0), 0.0, 1.0)
        shrunk = np.where(d2 > 0, s, 0.0)[:, None, None]
        shrunken: NDArray[np.float64] = (1 - shrunk) * scatter + shrunk * even
        return shrunken


def distances(
    y: NDArray[np.float64], precision: NDArray[np.float64], model: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """``d2 = y'Py`` of each vector (d, row) by the precision (model, d, d) of its model (row,),
    (row,), and what each quantity adds to it, ``y_j (Py)_j``, (d, row): they sum to d2.

    >>> d2, parts = distances(
    ...     np.array([[3.0], [1.0]]), np.diag([1.0, 2.0])[None], np.zeros(1, np.intp)
    ... )
    >>> d2.tolist(), parts.tolist()
    ([11.0], [[9.0], [2.0]])
    """
    weighted = np.zeros_like(y)
    for one, of_one in zip(y, precision.transpose(1, 2, 0), strict=True):
        weighted += one * of_one[:, model]
    parts = y * weighted
    return parts.sum(axis=0), parts


def bin_of(d2: NDArray[np.float64]) -> NDArray[np.int64]:
    """The bin of each distance in the histogram, (sample,)."""
    bins: NDArray[np.int64] = np.clip(
        PER_DOUBLING * np.log2(np.maximum(d2, 1.0)), 0, BINS - 1
    ).astype(np.int64)
    return bins


def tail_limit(counts: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """The distance that this share of what was counted lies beyond, by bins (..., bin); infinite
    where too few were counted to say.

    From the data and not from the chi-square law, which fleets do not follow. Below one in a
    thousand the tail is drawn on as a power law through its hundredth and thousandth: further out
    lie the faults that are not reported yet, more of them than rare healthy blocks.

    >>> counts = np.zeros(BINS)
    >>> counts[[0, 16, 24]] = 98500, 1450, 50
    >>> [round(float(tail_limit(counts, share)), 1) for share in (0.02, 0.01, 0.001, 0.0001)]
    [1.1, 4.4, 4.4, 4.4]
    >>> float(tail_limit(counts / 100, 0.001))
    inf
    """
    few = counts.sum(axis=-1) * ANCHORS[1] < MIN_BEYOND
    if share >= ANCHORS[1]:
        return np.where(few, np.inf, _quantile(counts, share))
    near, far = (_quantile(counts, anchor) for anchor in ANCHORS)
    drawn = far * (far / near) ** (np.log(ANCHORS[1] / share) / np.log(ANCHORS[0] / ANCHORS[1]))
    return np.where(few, np.inf, drawn)


def _quantile(counts: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """Upper end of the first bin that at most this share lies above."""
    beyond = np.cumsum(counts[..., ::-1], axis=-1)[..., ::-1] - counts
    first = (beyond <= share * counts.sum(axis=-1, keepdims=True)).argmax(axis=-1)
    return np.asarray(2 ** ((first + 1) / PER_DOUBLING), np.float64)
