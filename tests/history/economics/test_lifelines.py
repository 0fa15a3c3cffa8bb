"""Our estimates beside those of lifelines, the library for them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from history.economics.reliability import HOUR_MS, Duration, median_duration, mtbf

pytestmark = pytest.mark.slow  # it imports pandas and SciPy


def test_medians_and_their_intervals_are_those_of_lifelines() -> None:
    """Of 60 samples with ties and unended repairs: Kaplan and Meier with Greenwood's variance on
    the scale of log(-log S).
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own dependencies
        lifelines = pytest.importorskip("lifelines")
        compared = 0
        for seed in range(60):
            rng = np.random.default_rng(seed)
            size = int(rng.integers(1, 40))
            hours = np.round(rng.weibull(0.8, size) * 10, int(rng.integers(0, 3))) + 0.01
            ended = rng.random(size) < rng.choice([0.3, 0.7, 1.0])
            theirs = lifelines.KaplanMeierFitter(alpha=0.05).fit(hours, ended)
            band = theirs.confidence_interval_
            low, high = lifelines.utils.median_survival_times(band).iloc[0].tolist()
            ours = median_duration(map(Duration, hours.tolist(), ended.tolist()))
            if ended.sum() > 1:  # of fewer it gives an interval without width
                assert (ours.low, ours.high) == pytest.approx((low, high))
            # At exactly one half it takes the next time, where its product is a digit above.
            if abs(theirs.survival_function_.iloc[:, 0] - 0.5).min() > 1e-9:
                assert ours.estimate == pytest.approx(theirs.median_survival_time_)
                compared += 1
    assert compared > 45


def test_the_mean_time_between_failures_is_that_of_lifelines() -> None:
    """Its estimate is ours; its interval is Wald's, inside which or near which the exact one is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lifelines = pytest.importorskip("lifelines")
        rng = np.random.default_rng(7)
        hours, failed = rng.exponential(950, 400), rng.random(400) < 0.5
        theirs = lifelines.ExponentialFitter().fit(hours, failed)
    ours = mtbf(int(failed.sum()), round(hours.sum() * HOUR_MS))
    assert ours.estimate == pytest.approx(theirs.lambda_, rel=1e-3)
    low, high = theirs.confidence_interval_hazard_.iloc[0].tolist()
    assert (ours.low, ours.high) == pytest.approx((1 / high, 1 / low), rel=0.05)
