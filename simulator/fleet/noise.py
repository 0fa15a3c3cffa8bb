"""Noise with long memory, a part of which all GPUs of a node have in common.

The sum of five first-order processes with time constants from seconds to hours, as measured on
GPUs under load: means of an hour scatter half as much as single seconds do, and longer averages do
not help.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TAUS_S = np.array([3.0, 30.0, 300.0, 3_000.0, 30_000.0])
SLOW = TAUS_S > 300.0  # five minutes
MINUTE_S = 60.0


def weights(slow_share: float) -> Floats:
    """Variance of each part, (5,), which sum to 1: so much of it in time constants above 5 min."""
    return np.asarray(np.where(SLOW, slow_share / SLOW.sum(), (1 - slow_share) / (~SLOW).sum()))


def variance_of_means(span_s: float) -> Floats:
    """Variance of means over a span, by part, (5,), of unit variance: exact for AR(1).

    >>> variance_of_means(60.0).round(2).tolist()
    [0.1, 0.57, 0.94, 0.99, 1.0]
    """
    x = span_s / TAUS_S
    return np.asarray(2 / x**2 * (x - 1 + np.exp(-x)))


class LongNoise:
    """Noise of GPUs, (GPU,), whose means of a minute have this standard deviation.

    ``slow`` is the share of its variance in time constants above five minutes, ``shared`` the share
    that the GPUs of a node have in common.
    """

    def __init__(
        self,
        nodes: int,
        gpus: int,
        *,
        minutes_sd: float,
        slow: float,
        shared: float,
        rng: np.random.Generator,
    ) -> None:
        part = weights(slow)
        scale = minutes_sd / np.sqrt((part * variance_of_means(MINUTE_S)).sum())
        self._sd = (scale * np.sqrt(part))[:, None]
        self._rng, self._gpus = rng, gpus
        self._mix = np.sqrt(1 - shared), np.sqrt(shared)
        self._own = self._sd * rng.standard_normal((len(TAUS_S), nodes * gpus))
        self._node = self._sd * rng.standard_normal((len(TAUS_S), nodes))

    def advance(self, ticks: int, dt: float) -> Floats:
        """The next ticks, (tick, GPU)."""
        keep = np.exp(-dt / TAUS_S)[:, None]
        fresh = self._sd * np.sqrt(1 - keep**2)
        own, common = self._mix
        made = np.empty((ticks, self._own.shape[1]))
        for tick in range(ticks):
            for state in (self._own, self._node):
                np.multiply(state, keep, out=state)
                np.add(state, fresh * self._rng.standard_normal(state.shape), out=state)
            shared = np.repeat(self._node.sum(axis=0), self._gpus)
            made[tick] = own * self._own.sum(axis=0) + common * shared
        return made
