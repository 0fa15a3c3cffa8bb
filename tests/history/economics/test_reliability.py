"""Intervals, medians and lemons against figures that are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from history.economics.reliability import HOUR_MS, Duration, lemons, median_duration, mtbf


def test_the_interval_is_the_exact_one() -> None:
    """40 failures in 38,000 h: 2T/chi2(.975; 82) to 2T/chi2(.025; 80), by scipy's quantiles."""
    stats = pytest.importorskip("scipy.stats")
    found = mtbf(40, 38_000 * HOUR_MS)
    assert found.estimate == 950
    assert found.low == pytest.approx(2 * 38_000 / stats.chi2.ppf(0.975, 82))
    assert found.high == pytest.approx(2 * 38_000 / stats.chi2.ppf(0.025, 80))


def test_no_failure_bounds_from_below_alone() -> None:
    """T/3.69."""
    assert mtbf(0, 369 * HOUR_MS).low == pytest.approx(369 / -math.log(0.025))


def test_repairs_that_still_last_count_for_as_long_as_they_have() -> None:
    """Freireich et al. (1963), 6-MP: 21 remissions, twelve of them not ended, median 23 weeks."""
    ended = [6, 6, 6, 7, 10, 13, 16, 22, 23]
    lasting = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
    durations = [Duration(h, True) for h in ended] + [Duration(h, False) for h in lasting]
    found = median_duration(durations)
    assert (found.of, found.ended, found.estimate) == (21, 9, 23)
    # As R's survfit(conf.type = "log-log") has it.
    assert (found.low, found.high) == (13, math.inf)
    assert median_duration(durations[:9]).estimate == 10
    assert median_duration([]).estimate == math.inf


def test_a_lemon_is_found_and_chance_is_none() -> None:
    """Of 400 nodes one fails ten times as often; in fleets without one hardly any is named."""
    hours = {f"n{k}": 2000.0 for k in range(400)}
    rng, named = np.random.default_rng(3), 0
    for _ in range(20):
        counts = {host: int(rng.poisson(0.5)) for host in hours}
        named += bool(lemons(counts, hours))
    assert named <= 3
    counts["n7"] = 12
    assert next(one.host for one in lemons(counts, hours)) == "n7"


def test_what_has_no_hours_is_no_lemon() -> None:
    """A page about a job is of no node, and one of a storage node of none with GPUs."""
    assert lemons({"": 1, "nfs1": 2, "n1": 1}, {"n1": 700.0, "n2": 700.0}) == []
