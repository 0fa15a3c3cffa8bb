"""Median and spread over many devices."""

from __future__ import annotations

import numpy as np

from detectors.kit.stats import median_mad
from detectors.kit.stats.peers import LARGE, SIGMA


def test_many_devices_give_what_few_do() -> None:
    """Rows that are taken one after the other, because they are long, have the same
    median and spread as together.
    """
    x = np.random.default_rng(4).standard_normal((3, LARGE + 2))
    x[0, 5], x[1, 6] = np.nan, np.inf
    medians, spreads = median_mad(x)
    middle = [np.median(row[np.isfinite(row)]) for row in x]
    assert medians.tolist() == middle
    around = [
        np.median(np.abs(row[np.isfinite(row)] - m)) for row, m in zip(x, middle, strict=True)
    ]
    assert spreads.tolist() == [SIGMA * m for m in around]
