"""CUSUMs: equal to the definition, and their run lengths to simulation and to what
can be computed by hand.
"""

from __future__ import annotations

from math import exp, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.kit.stats import (
    bernoulli_arl,
    bernoulli_cusum,
    bernoulli_steps,
    cusum,
    h_for_arl,
    poisson_arl,
    poisson_cusum,
    poisson_h,
    poisson_k,
    siegmund_arl,
)


@pytest.mark.slow
@given(
    st.lists(st.one_of(st.floats(-50, 50), st.just(nan)), max_size=60),
    st.floats(0, 2),
    st.floats(1, 20),
)
def test_cusum_equals_its_definition(z: list[float], k: float, h: float) -> None:
    """S is max(0, S + z - k) with z clipped at three, held at 2h, and
    unmoved by a missing value.
    """
    S, wanted = np.zeros(1), 0.0  # noqa: N806 - the paper's symbol
    for value in z:
        S = cusum(S, np.array([value]), k, h)  # noqa: N806
        if value == value:  # noqa: PLR0124 - not NaN
            wanted = min(2 * h, max(0.0, wanted + max(-3.0, min(3.0, value)) - k))
        assert S[0] == pytest.approx(wanted)


def test_siegmund_agrees_with_simulation() -> None:
    """With k 0.5 and h 4 it alarms every 336 to 338 Gaussian steps on average (Siegmund 1985;
    Montgomery's tables); 2,000 streams agree within 8 percent.
    """
    rng = np.random.default_rng(3)
    S, length, waiting = np.zeros(2000), np.zeros(2000), np.ones(2000, bool)  # noqa: N806
    while waiting.any():
        S = np.maximum(0, S + rng.normal(size=2000) - 0.5)  # noqa: N806
        length += waiting
        waiting &= ~(S > 4.0)
    assert length.mean() == pytest.approx(siegmund_arl(0.5, 4.0), rel=0.08)


def test_a_drift_of_exactly_k_has_a_finite_run_length() -> None:
    """At delta = k the formula's limit is b squared: (5 + 1.166) squared."""
    assert siegmund_arl(0.5, 5.0, delta=0.5) == pytest.approx(6.166**2)
    assert siegmund_arl(0.5, 5.0, delta=0.5) == pytest.approx(
        siegmund_arl(0.5, 5.0, delta=0.5001), rel=0.01
    )


def test_h_is_the_smallest_that_keeps_the_budget() -> None:
    """5.8e8 blocks between false alarms (twenty statistics of 43,200 blocks a month at 0.0015 a
    month) need h of about 18.
    """
    assert h_for_arl(43_200 * 20 / 0.0015, 0.5) == pytest.approx(18, abs=0.5)
    with pytest.raises(ValueError, match="k is 0"):
        h_for_arl(100, 0)


def ndr(ber: float) -> tuple[float, float]:
    """Symbol errors in five minutes of a 400 Gb/s link at this bit-error rate, and at the greater
    of 1e-14 and four times as many.
    """
    l0 = 400e9 * 300 * ber
    return l0, max(400e9 * 300 * 1e-14, 4 * l0)


@pytest.mark.parametrize(
    ("ber", "k"),
    [(1e-16, (1.2 - 0.012) / np.log(100)), (1e-15, 1.08 / np.log(10)), (3e-15, 1.08 / np.log(4))],
)
def test_poisson_k_is_the_likelihood_ratio_optimum(ber: float, k: float) -> None:
    """(l1 - l0) / ln(l1/l0), by hand for an NDR link: 0.012 -> 1.2, 0.12 -> 1.2, 0.36
    -> 1.44 errors per window.
    """
    l0, l1 = ndr(ber)
    assert float(poisson_k(np.array(l0), np.array(l1))) == pytest.approx(k)


def test_poisson_run_lengths_computed_by_hand() -> None:
    """With k = 1, h = 2: from S = 0 or 1, with p0, p1, p2 the chances of 0, 1, 2 events, L0 = 1 +
    (p0+p1) L0 + p2 L1, L1 = 1 + p0 L0 + p1 L1.
    """
    mean = 0.7
    p0, p1, p2 = exp(-mean), mean * exp(-mean), mean**2 / 2 * exp(-mean)
    by_hand = np.linalg.solve([[1 - p0 - p1, -p2], [-p0, 1 - p1]], [1, 1])[0]
    assert poisson_arl(mean, 1.0, 2.0) == pytest.approx(by_hand)


@pytest.mark.parametrize("ber", [1e-15, 3e-15])
def test_poisson_run_length_agrees_with_simulation(ber: float) -> None:
    """At the bad rate the chain's mean delay is what 20,000 simulated
    links show, within 3 percent.
    """
    l0, l1 = ndr(ber)
    k = float(poisson_k(np.array(l0), np.array(l1)))
    h = poisson_h(l0, k, 1e5)
    rng = np.random.default_rng(5)
    S, delay = np.zeros(20_000), np.zeros(20_000)  # noqa: N806
    while (h > S).any():
        waiting = h > S
        delay += waiting
        S = np.where(  # noqa: N806
            waiting, poisson_cusum(S, rng.poisson(l1, 20_000).astype(float), np.array(k)), S
        )
    assert delay.mean() == pytest.approx(poisson_arl(l1, k, h), rel=0.03)


def test_poisson_h_refuses_a_rate_above_k() -> None:
    """Then S grows by itself and no limit helps."""
    with pytest.raises(ValueError, match="l0 < k"):
        poisson_h(1.0, 0.5, 1e5)


def test_bernoulli_run_length_agrees_with_simulation() -> None:
    """Hours with an error in 10 percent of hours, p0 0.002 against p1 0.05, h 10: chain and 4,000
    simulated GPUs within 5 percent.
    """
    steps, rng = bernoulli_steps(0.002, 0.05), np.random.default_rng(11)
    S, delay, waiting = np.zeros(4000), np.zeros(4000), np.ones(4000, bool)  # noqa: N806
    while waiting.any():
        delay += waiting
        S, alarm = bernoulli_cusum(S, (rng.random(4000) < 0.1).astype(float), steps, 10.0)  # noqa: N806
        waiting &= ~alarm
    assert delay.mean() == pytest.approx(bernoulli_arl(0.1, 0.002, 0.05, 10.0), rel=0.05)


@pytest.mark.parametrize(("p0", "p1"), [(0.0, 0.1), (0.2, 0.1), (0.1, 1.0)])
def test_bernoulli_refuses_shares_that_make_no_sense(p0: float, p1: float) -> None:
    """The message names both."""
    with pytest.raises(ValueError, match="p0 < p1"):
        bernoulli_steps(p0, p1)
