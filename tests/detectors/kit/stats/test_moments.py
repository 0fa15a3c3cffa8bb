"""Robust moments: equal to the textbook loop, not carried away by outliers,
silent about what is missing.
"""

from __future__ import annotations

from math import inf, isnan, nan, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.kit.stats import Moments, alpha_of, ew_update

SAMPLES = st.lists(st.one_of(st.floats(-1e3, 1e3), st.just(nan)), max_size=80)


def textbook(samples: list[float], alpha: float, floor: float) -> tuple[float, float, int]:
    """The same moments of one stream, one sample at a time."""
    m, v, n = 0.0, 0.0, 0
    for x in samples:
        if isnan(x):
            continue
        a = max(alpha, 1 / (n + 1))
        limit = 3 * max(sqrt(v), floor) if n >= 30 else inf
        e = max(-limit, min(limit, x - m))
        m, v, n = m + a * e, (1 - a) * (v + 1.02 * a * e * e), n + 1
    return m, v, n


@pytest.mark.slow
@given(st.lists(SAMPLES, min_size=1, max_size=3), st.floats(0.001, 0.5), st.floats(0.01, 10))
def test_moments_of_many_devices_equal_the_loop_over_each(
    streams: list[list[float]], alpha: float, floor: float
) -> None:
    """Vectorised and one at a time are the same thing."""
    moments = Moments.zeros(len(streams))
    for i in range(max(map(len, streams))):
        ew_update(moments, np.array([s[i] if i < len(s) else nan for s in streams]), alpha, floor)
    for device, stream in enumerate(streams):
        m, v, n = textbook(stream, alpha, floor)
        assert moments.m[device] == pytest.approx(m, abs=1e-6)
        assert moments.v[device] == pytest.approx(v, rel=1e-6, abs=1e-6)
        assert moments.n[device] == n


def test_a_cold_start_is_the_running_mean() -> None:
    """The first samples weigh alike: the mean of 2, 4 and 9 is 5."""
    moments = Moments.zeros(1)
    for x in (2.0, 4.0, 9.0):
        ew_update(moments, np.array([x]), alpha_of(1000), 0.1)
    assert moments.m[0] == pytest.approx(5)


@pytest.mark.slow
def test_the_variance_of_gaussian_noise_is_found_in_spite_of_the_clip() -> None:
    """Unit noise: the mean of the estimates is 1 within 3 percent, so the offset is right,
    and it does not diverge.
    """
    rng = np.random.default_rng(7)
    moments = Moments.zeros(400)
    for _ in range(4000):
        ew_update(moments, rng.normal(size=400), 0.01, 0.01)
    assert moments.v.mean() == pytest.approx(1, abs=0.03)


def test_an_outlier_moves_the_mean_by_three_spreads_at_most() -> None:
    """A million sigma weighs no more than three."""
    moments = Moments(np.zeros(1), np.ones(1), np.array([100]))
    ew_update(moments, np.array([1e6]), 0.1, 0.01)
    assert moments.m[0] == pytest.approx(0.3)


def test_frozen_and_missing_devices_learn_nothing() -> None:
    """What was flagged is not learnt, and absence is not zero."""
    moments = Moments(np.full(3, 5.0), np.ones(3), np.full(3, 50))
    ew_update(moments, np.array([6.0, 6.0, nan]), 0.5, 0.1, frozen=np.array([False, True, False]))
    assert moments.m.tolist() == [5.5, 5.0, 5.0]
    assert moments.n.tolist() == [51, 50, 50]
