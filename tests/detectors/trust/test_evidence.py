"""Bounds on a detector's precision hold at every time of looking."""

from __future__ import annotations

import numpy as np
import pytest

from detectors.trust.evidence import (
    ENTER_NULL,
    LEAVE_NULL,
    demand,
    enter_evidence,
    leave_evidence,
    precision_interval,
)

RUNS, LABELS = 4000, 400
# Of a share of 5 % in so many runs, four standard deviations of its estimate.
NOISE = 4 * (0.05 * 0.95 / RUNS) ** 0.5


def counts(precision: float, seed: int) -> np.ndarray:
    """Real labels among the first n, of many runs: (run, n), n from 1."""
    rng = np.random.default_rng(seed)
    return np.cumsum(rng.random((RUNS, LABELS)) < precision, axis=1)


def share_that_ever(precision: float, seed: int, table: np.ndarray) -> float:
    """Of runs in which a count of real labels among n is one that ``table`` (n, real) marks."""
    real = counts(precision, seed)
    return float(table[np.arange(1, LABELS + 1), real].any(axis=1).mean())


def table(marks: object) -> np.ndarray:
    """Which (n, real) are marked by a function of real and other labels."""
    found = np.zeros((LABELS + 1, LABELS + 1), bool)
    for n in range(1, LABELS + 1):
        for real in range(n + 1):
            found[n, real] = marks(real, n - real)  # type: ignore[operator]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("precision", [0.5, 0.85, 0.89, LEAVE_NULL])
def test_looking_after_each_label_frees_an_imprecise_detector_in_one_run_of_twenty(
    precision: float,
) -> None:
    """At most, by Ville's inequality; a bound for one look frees .90 in one of six."""
    leaves = table(lambda real, others: leave_evidence(real, others) >= demand(0))
    assert share_that_ever(precision, 21, leaves) <= 0.05 + NOISE


@pytest.mark.slow
@pytest.mark.parametrize("precision", [ENTER_NULL, 0.9, 0.99])
def test_a_precise_detector_is_silenced_in_one_run_of_twenty(precision: float) -> None:
    """At most; and one that is wrong half of the time is, nearly always."""
    enters = table(lambda real, false: enter_evidence(real, false) >= demand(0))
    assert share_that_ever(precision, 22, enters) <= 0.05 + NOISE
    assert share_that_ever(0.5, 23, enters) > 0.99


@pytest.mark.slow
def test_a_detector_that_is_always_right_is_freed_soon() -> None:
    """With a precision of .98 in most runs, within a few hundred labels."""
    leaves = table(lambda real, others: leave_evidence(real, others) >= demand(0))
    assert share_that_ever(0.98, 24, leaves) > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("precision", [0.3, 0.9, 0.99])
def test_the_interval_holds_the_true_precision_at_all_times_together(precision: float) -> None:
    """In at least 95 % of runs, whenever one looks."""
    misses = np.zeros((LABELS + 1, LABELS + 1), bool)
    real = counts(precision, 25)[:500]
    seen = {(n, int(k)) for n in range(1, LABELS + 1) for k in np.unique(real[:, n - 1])}
    for n, k in seen:
        low, high = precision_interval(k, n - k)
        misses[n, k] = not low <= precision <= high
    missed = misses[np.arange(1, LABELS + 1), real].any(axis=1).mean()
    assert missed <= 0.05 + 4 * (0.05 * 0.95 / 500) ** 0.5


def test_evidence_of_many_labels_is_a_number() -> None:
    """Never an overflow."""
    assert leave_evidence(10**6, 0) > 1e300
    assert enter_evidence(0, 10**6) > 1e300
    assert precision_interval(10**6, 0)[0] > 0.9999
