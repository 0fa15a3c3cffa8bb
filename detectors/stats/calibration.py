"""Limits from what healthy devices did: theory assumes noise that no fleet has."""

from __future__ import annotations

from math import exp, log
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

TAIL = 0.1  # share of the maxima that the tail is fitted to
LEAST = 50  # excesses below which a shape cannot be told from noise: an exponential tail is assumed


def pot_quantile(maxima: NDArray[np.float64], exceedance: float, tail: float = TAIL) -> float:
    """Level that a share ``exceedance`` of future maxima exceeds, from healthy ones (daily maxima of S, say), (sample,).

    Peaks over threshold: a generalised Pareto distribution on the highest ``tail`` of the maxima, fitted by probability-weighted
    moments (Hosking and Wallis 1987, Technometrics 29); the shape is kept within [0, 0.5]: a bounded tail would promise too much.
    ValueError without any finite maximum.

    >>> rng = np.random.default_rng(1)
    >>> 0.8 < pot_quantile(rng.exponential(size=20000), 1e-4) / -log(1e-4) < 1.25
    True
    """
    maxima = np.sort(maxima[np.isfinite(maxima)])
    if not len(maxima):
        raise ValueError("no healthy maxima to calibrate by")
    if exceedance >= tail:
        return float(np.quantile(maxima, 1 - exceedance))
    u = float(np.quantile(maxima, 1 - tail))
    y = maxima[maxima > u] - u
    if not len(y):
        return u
    shape, scale = _fit(y)
    ratio = exceedance / tail
    return u + scale * (-log(ratio) if shape == 0 else (exp(-shape * log(ratio)) - 1) / shape)


def _fit(y: NDArray[np.float64]) -> tuple[float, float]:
    """Shape and scale of sorted excesses."""
    b0 = float(y.mean())
    if len(y) < LEAST:
        return 0.0, b0
    weight = 1 - (np.arange(1, len(y) + 1) - 0.35) / len(y)
    b1 = float((weight * y).mean())
    shape = 2 - b0 / (b0 - 2 * b1) if b0 > 2 * b1 else 0.5
    if not 0 < shape < 0.5:
        shape = min(max(shape, 0.0), 0.5)
    return shape, b0 * (1 - shape)  # the mean excess is scale/(1-shape)
