"""Exponentially weighted mean and variance that a few wild samples cannot carry away: each device's own past."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

CLIP = 3.0  # Huber's psi at three sigma (Huber 1981, Robust Statistics)
WARM = 30  # samples before the spread is good enough to clip by
# Clipping a Gaussian at three sigma takes about half a percent of its variance, and the estimate is fed back into the clip:
# 1.02 offsets both. It stands inside the bracket; outside, v would grow by two percent a step.
OFFSET = 1.02


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Mean ``m``, variance ``v`` and number of samples ``n`` per device, all (device,); changed in place."""

    m: NDArray[np.float64]
    v: NDArray[np.float64]
    n: NDArray[np.int64]

    @classmethod
    def zeros(cls, devices: int) -> Self:
        """Nothing learnt yet."""
        return cls(np.zeros(devices), np.zeros(devices), np.zeros(devices, np.int64))

    def spread(self, floor: float) -> NDArray[np.float64]:
        """Standard deviation, at least ``floor``, (device,)."""
        spread: NDArray[np.float64] = np.maximum(np.sqrt(self.v), floor)
        return spread


def alpha_of(half_life: float) -> float:
    """Weight of a new sample for a half-life in samples.

    >>> alpha_of(1.0)
    0.5
    """
    return float(1.0 - 2.0 ** (-1.0 / half_life))


def ew_update(
    moments: Moments, x: NDArray[np.float64], alpha: float, floor: float, frozen: NDArray[np.bool_] | None = None
) -> None:
    """Learn one sample per device, in place. NaN and ``frozen`` devices hold all state.

    ``a = max(alpha, 1/(n+1))`` (a cold start is a running mean), ``e = x-m`` clipped at three spreads once n >= 30,
    ``m += a*e``, ``v = (1-a)*(v + 1.02*a*e^2)``: West (1979), Comm. ACM 22(9), with Huber's clip.

    >>> moments = Moments.zeros(1)
    >>> for x in (1.0, 2.0, np.nan, 3.0):
    ...     ew_update(moments, np.array([x]), alpha=0.01, floor=0.1)
    >>> moments.m.tolist(), moments.n.tolist()
    ([2.0], [3])
    """
    learn = np.isfinite(x) if frozen is None else np.isfinite(x) & ~frozen
    a = np.maximum(alpha, 1.0 / (moments.n + 1.0))
    e = np.where(learn, x, moments.m) - moments.m
    limit = np.where(moments.n >= WARM, CLIP * moments.spread(floor), np.inf)
    e = np.clip(e, -limit, limit)
    np.copyto(moments.m, moments.m + a * e, where=learn)
    np.copyto(moments.v, (1.0 - a) * (moments.v + OFFSET * a * e * e), where=learn)
    np.add(moments.n, 1, out=moments.n, where=learn)
