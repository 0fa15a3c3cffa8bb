"""Clipped CUSUM of standardised values, and how often it alarms when nothing is wrong."""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING

import numpy as np

from pipeline.small_arrays import any_true

if TYPE_CHECKING:
    from numpy.typing import NDArray

CLIP = 3.0  # one wild sample moves S by at most this: tails and spikes do not alarm
BLOCK = 8192  # values at a time: what is in between stays in the cache
OVERSHOOT = 1.166  # Siegmund's correction of the boundary for the excess over it


def cusum(
    S: NDArray[np.float64],  # noqa: N803 - the paper's symbol
    z: NDArray[np.float64],
    k: float,
    h: float,
) -> NDArray[np.float64]:
    """One step of the upper CUSUM per device, (device,):
    ``min(2h, max(0, S + clip(z) - k))``; NaN holds.

    Page (1954), Biometrika 41; S is held at 2h so that it can come down again. For
    the lower one pass ``-z``.

    >>> cusum(np.array([1.0, 1.0, 1.0]), np.array([2.0, 9.0, np.nan]), k=0.5, h=8.0).tolist()
    [2.5, 3.5, 1.0]
    """
    after = np.empty(np.broadcast_shapes(S.shape, z.shape))
    for begin in range(0, len(after), BLOCK):
        at = slice(begin, begin + BLOCK)
        step = np.clip(z[at], -CLIP, CLIP)
        step -= k
        step += S[at]
        np.clip(step, 0.0, 2.0 * h, out=after[at])
        missing = np.isnan(step)
        if any_true(missing):
            np.copyto(after[at], S[at], where=missing)
    return after


def siegmund_arl(k: float, h: float, delta: float = 0.0) -> float:
    """Mean number of steps to an alarm of an unclipped CUSUM of independent Gaussian
    values with mean ``delta``.

    ``D = delta-k, b = h+1.166: (exp(-2Db)+2Db-1)/(2D^2)``, b^2 where D = 0. Siegmund (1985),
    Sequential Analysis, (2.57). With delta 0 it is the distance between false alarms; with the size
    of a shift, the delay.

    >>> round(siegmund_arl(0.5, 8.0), -3), round(siegmund_arl(0.5, 8.0, delta=2.0), 1)
    (19000.0, 5.9)
    """
    drift, b = delta - k, h + OVERSHOOT
    return b * b if drift == 0 else (exp(-2 * drift * b) + 2 * drift * b - 1) / (2 * drift * drift)


def h_for_arl(arl: float, k: float) -> float:
    """The smallest h (to 0.01) whose distance between false alarms is at least ``arl`` steps.

    ValueError unless k > 0.

    >>> siegmund_arl(0.5, h_for_arl(1e6, 0.5)) >= 1e6 > siegmund_arl(
    ...     0.5, h_for_arl(1e6, 0.5) - 0.01
    ... )
    True
    """
    if k <= 0:
        raise ValueError(f"k is {k}: without a positive reference value S drifts up by itself")
    low, high = 0, 100_000  # hundredths
    while high - low > 1:
        middle = (low + high) // 2
        if _arl_or_more(k, middle / 100, arl):
            high = middle
        else:
            low = middle
    return high / 100


def _arl_or_more(k: float, h: float, arl: float) -> bool:
    return 2 * k * (h + OVERSHOOT) > 700 or siegmund_arl(k, h) >= arl  # exp overflows above 709
