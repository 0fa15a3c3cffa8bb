"""Exponentially weighted mean and variance that a few wild samples cannot carry
away: each device's own past.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

CLIP = 3.0  # Huber's psi at three sigma (Huber 1981, Robust Statistics)
WARM = 30  # samples before the spread is good enough to clip by
# Clipping a Gaussian at three sigma takes about half a percent of its variance, and the estimate is
# fed back into the clip: 1.02 offsets both. It is inside the bracket; outside, v would grow by
# two percent a step.
OFFSET = 1.02
BLOCK = 8192  # values at a time: what is in between stays in the cache


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Mean ``m``, variance ``v`` and number of samples ``n`` per device, all
    (device,); changed in place.
    """

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
    moments: Moments,
    x: NDArray[np.float64],
    alpha: float,
    floor: float,
    frozen: NDArray[np.bool_] | None = None,
) -> None:
    """Learn one sample per device, in place. NaN and ``frozen`` devices hold all state.

    ``a = max(alpha, 1/(n+1))`` (a cold start is a running mean), ``e = x-m`` clipped at three
    spreads once n >= 30, ``m += a*e``, ``v = (1-a)*(v + 1.02*a*e^2)``: West (1979), Comm. ACM
    22(9), with Huber's clip.

    >>> moments = Moments.zeros(1)
    >>> for x in (1.0, 2.0, np.nan, 3.0):
    ...     ew_update(moments, np.array([x]), alpha=0.01, floor=0.1)
    >>> moments.m.tolist(), moments.n.tolist()
    ([2.0], [3])
    """
    for begin in range(0, len(x), BLOCK):
        at = slice(begin, begin + BLOCK)
        block = Moments(moments.m[at], moments.v[at], moments.n[at])
        _learn(block, x[at], alpha, floor, None if frozen is None else frozen[at])


def _learn(
    block: Moments,
    x: NDArray[np.float64],
    alpha: float,
    floor: float,
    frozen: NDArray[np.bool_] | None,
) -> None:
    """One block, in place.

    Beginners and missing samples are only asked after where there are any.
    """
    m, v, n = block.m, block.v, block.n
    learn = np.isfinite(x) if frozen is None else np.isfinite(x) & ~frozen
    every, least = bool(learn.all()), int(n.min())
    a = alpha if alpha * (least + 1.0) >= 1.0 else np.maximum(alpha, 1.0 / (n + 1.0))
    e = x - m if every else np.where(learn, x, m) - m
    limit = np.sqrt(v)
    np.maximum(limit, floor, out=limit)
    limit *= CLIP
    if least < WARM:
        limit[n < WARM] = np.inf
    np.minimum(e, limit, out=e)
    np.maximum(e, np.negative(limit, out=limit), out=e)
    gained = OFFSET * a * e
    gained *= e
    gained += v
    gained *= 1.0 - a
    e *= a
    e += m
    np.copyto(m, e, where=True if every else learn)
    np.copyto(v, gained, where=True if every else learn)
    np.add(n, 1, out=n, where=True if every else learn)
