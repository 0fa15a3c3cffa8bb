"""Medians, quantiles, slopes and blocks: equal to the slow way, missing values left out."""

from __future__ import annotations

from math import nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from detectors.kit.stats import (
    add_sample,
    block_mean,
    grouped_median,
    median_mad,
    median_of,
    peer_deviation,
    theil_sen,
)

VALUES = st.one_of(st.floats(-1e6, 1e6), st.just(nan))
MATRIX = hnp.arrays(
    np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=9), elements=VALUES
)


@pytest.mark.slow
@given(MATRIX)
def test_median_and_mad_equal_nanmedian(x: NDArray[np.float64]) -> None:
    """Selection in place gives what sorting gives, for odd and even counts, and NaN
    where nothing is observed.
    """
    before = x.copy()
    median, spread = median_mad(x)
    for row in range(len(x)):
        seen = x[row][np.isfinite(x[row])]
        assert np.isnan(median[row]) == (not len(seen))
        if len(seen):
            assert median[row] == pytest.approx(np.median(seen), abs=1e-9)
            assert spread[row] == pytest.approx(
                1.4826 * np.median(np.abs(seen - np.median(seen))), abs=1e-6
            )
    assert np.array_equal(x, before, equal_nan=True)


@pytest.mark.slow
@given(st.lists(st.tuples(VALUES, st.integers(-1, 3)), max_size=40), st.booleans())
def test_grouped_median_equals_the_median_of_each_group(
    rows: list[tuple[float, int]], in_order: bool
) -> None:
    """One sort for all groups, or a table of groups that lie in order, gives what
    one median per group gives.
    """
    rows = sorted(rows, key=lambda row: row[1]) if in_order else rows
    x, group = np.array([r[0] for r in rows], float), np.array([r[1] for r in rows], np.int64)
    median, count = grouped_median(x, group, 4)
    for number in range(4):
        seen = x[(group == number) & np.isfinite(x)]
        assert count[number] == len(seen)
        if len(seen):
            assert median[number] == pytest.approx(np.median(seen), abs=1e-9)


def test_too_few_peers_are_no_peers() -> None:
    """Two of a group of two may be compared where two are asked for, not where
    three are; outsiders never.
    """
    x, group = np.array([1.0, 2.0, 9.0]), np.array([0, 0, -1])
    assert peer_deviation(x, group, 1, least=2).tolist()[:2] == [-0.5, 0.5]
    assert np.isnan(peer_deviation(x, group, 1, least=3)).all()
    assert np.isnan(peer_deviation(x, group, 1, least=1)[2])


def test_an_outlier_does_not_tilt_the_slope() -> None:
    """One wild sample of seven leaves a slope of 0.5 as it is; two samples are no trend."""
    t = np.arange(7.0)
    y = np.stack([0.5 * t, np.where(t < 2, t, nan)], axis=1)
    y[3, 0] = 1e6
    slope = theil_sen(t, y)
    assert slope[0] == pytest.approx(0.5)
    assert np.isnan(slope[1])


def test_the_median_slope_is_that_of_numpy() -> None:
    """Of thousands of devices, some without samples, some with equal ones, to the last bit; numpy's
    nanmedian is not used because it imports numpy.ma.
    """
    random = np.random.default_rng(18)
    for samples in range(2, 26):
        t = random.permutation(samples).astype(np.float64)
        y = np.round(random.normal(0, 2, (samples, 200)), random.integers(0, 3))
        y[random.random(y.shape) < random.random(200)] = nan
        first, second = np.triu_indices(samples, 1)
        slopes = (y[second] - y[first]) / (t[second] - t[first])[:, None]
        seen = np.isfinite(y).sum(axis=0) >= 3
        expected = np.full(200, nan)
        if seen.any():
            expected[seen] = np.nanmedian(slopes[:, seen], axis=0)
        assert np.array_equal(theil_sen(t, y), expected, equal_nan=True)


@pytest.mark.slow
@given(hnp.arrays(np.float64, st.integers(1, 9), elements=VALUES))
def test_the_median_of_values_is_that_of_numpy(values: NDArray[np.float64]) -> None:
    """One missing value makes it missing; the values stay in their order."""
    before = values.copy()
    assert np.array_equal(median_of(values), np.median(values), equal_nan=True)
    assert np.array_equal(values, before, equal_nan=True)


def test_no_value_has_no_median() -> None:
    """And no warning."""
    assert np.isnan(median_of(np.array([])))


def test_equal_times_are_no_pair() -> None:
    """A duplicate timestamp must not divide by zero."""
    assert theil_sen(
        np.array([0.0, 0.0, 1.0, 2.0]), np.array([[0.0], [0.0], [3.0], [6.0]])
    ).tolist() == [3.0]


def test_a_block_needs_half_of_its_samples() -> None:
    """Three of six are enough, two are not, and zero is a value."""
    total, count = np.zeros(3), np.zeros(3, np.int64)
    for x in ([0.0, 1.0, nan], [0.0, nan, nan], [0.0, 5.0, nan]):
        add_sample(total, count, np.array(x))
    mean = block_mean(total, count, expected=6)
    assert mean[0] == 0.0
    assert np.isnan(mean[1:]).all()
