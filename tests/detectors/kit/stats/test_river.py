"""Ours against river's: where both are asked the same, both give the same."""

from __future__ import annotations

import numpy as np
import pytest

from detectors.kit.stats import Moments, cusum, ew_update
from detectors.kit.stats.moments import OFFSET

WHY = "the extra `baselines` is not installed: river"
UNCLIPPED = 1e9  # a floor of the spread by which nothing is wild


@pytest.mark.parametrize("alpha", [0.5, 0.1, 0.01])
def test_moments_are_those_of_river(alpha: float) -> None:
    """Mean and variance of 200 samples, none of them clipped, once the running mean of a cold start
    is over; ours is 2 % larger by OFFSET.
    """
    stats = pytest.importorskip("river.stats", reason=WHY)
    first, *samples = np.random.default_rng(5).normal(600, 20, 200).tolist()
    mean, variance = stats.EWMean(alpha), stats.EWVar(alpha)
    ours = Moments(np.array([first]), np.zeros(1), np.array([round(1 / alpha)]))
    mean.update(first)
    variance.update(first)
    for x in samples:
        ew_update(ours, np.array([x]), alpha, UNCLIPPED)
        mean.update(x)
        variance.update(x)
        assert ours.m[0] == pytest.approx(mean.get(), rel=1e-12)
        assert ours.v[0] == pytest.approx(
            OFFSET * variance.get(), rel=1e-6, abs=1e-6
        )  # river's is a difference of squares


@pytest.mark.slow
@pytest.mark.parametrize("h", [4.0, 10.0, 40.0])
@pytest.mark.parametrize(("shift", "mode"), [(1.0, "up"), (-1.0, "down")])
def test_a_cusum_of_distances_from_the_running_mean_alarms_with_page_hinkley(
    shift: float, mode: str, h: float
) -> None:
    """River's test without forgetting is that: the same step of the first alarm in both directions,
    with k its delta and h its threshold.
    """
    drift = pytest.importorskip("river.drift", reason=WHY)
    samples = np.random.default_rng(6).uniform(-0.8, 0.8, 500)  # our CUSUM clips at 3: here nothing
    samples[200:] += shift
    theirs = drift.PageHinkley(min_instances=1, delta=0.25, threshold=h, alpha=1.0, mode=mode)
    S, mean, alarms = np.zeros(1), Moments.zeros(1), [0, 0]  # noqa: N806 - the paper's symbol
    for step, x in enumerate(samples.tolist(), start=1):
        ew_update(mean, np.array([x]), 1e-9, UNCLIPPED)
        S = cusum(S, np.sign(shift) * (x - mean.m), k=0.25, h=h)  # noqa: N806
        theirs.update(x)
        for which, alarm in enumerate((S[0] > h, theirs.drift_detected)):
            alarms[which] = alarms[which] or step * bool(alarm)
    assert alarms[0] == alarms[1] > 200
