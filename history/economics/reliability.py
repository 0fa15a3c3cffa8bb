"""How often parts fail and how long a repair takes, with exact intervals; nodes that fail more
often than chance allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from math import exp, inf, lgamma, log, sqrt
from typing import NamedTuple

from evaluation.metrics.intervals import poisson_interval

HOUR_MS = 3_600_000
NORMAL_95 = 1.959963984540054  # of the standard normal distribution: 95 % lie within
MIN_ENDED = 2  # of an interval
HALF = 0.5 + 1e-12  # a product of fractions may miss a half by its last digits
FALSE_DISCOVERIES = 0.05  # of the nodes that are named lemons: Benjamini and Hochberg (1995)


class Mtbf(NamedTuple):
    """Hours in service per failure, with the exact 95 % interval (chi-squared: 2T/chi2(.975; 2n+2)
    to 2T/chi2(.025; 2n)); the estimate is infinite without a failure, the lower bound is not.
    """

    failures: int
    hours: float
    estimate: float
    low: float
    high: float


def mtbf(failures: int, in_service_ms: int) -> Mtbf:
    """From a count and the time in service.

    >>> [round(x, 1) for x in mtbf(0, 369 * HOUR_MS)[2:]]
    [inf, 100.0, inf]
    """
    hours = in_service_ms / HOUR_MS
    low, high = poisson_interval(failures, hours) if hours else (0.0, inf)
    estimate = hours / failures if failures else inf
    return Mtbf(failures, hours, estimate, 1 / high if high else inf, 1 / low if low else inf)


class Duration(NamedTuple):
    """A repair: hours, and whether it has ended."""

    hours: float
    ended: bool


class Median(NamedTuple):
    """Of durations in hours: of how many, how many of them have ended, the median and its
    95 % interval; infinite where the durations do not reach it.
    """

    of: int
    ended: int
    estimate: float
    low: float
    high: float


def median_duration(durations: Iterable[Duration]) -> Median:
    """Median by the product-limit estimate (Kaplan and Meier 1958): repairs that still last count
    for as long as they have. Interval: Greenwood's variance on the scale of log(-log S), read at
    one half (Brookmeyer and Crowley 1982; Kalbfleisch and Prentice 1980); 0 to infinity where fewer
    than two ended, which have no variance.

    >>> median_duration([Duration(1, True), Duration(2, True), Duration(9, False)]).estimate
    2
    >>> median_duration([Duration(1, True), Duration(2, False), Duration(9, False)]).estimate
    inf
    """
    ordered = sorted(durations, key=lambda one: one.hours)
    left, survival, variance = len(ordered), 1.0, 0.0
    estimate = low = high = inf
    for hours, group in groupby(ordered, key=lambda one: one.hours):
        those = [one.ended for one in group]
        ended = sum(those)
        if ended:
            survival *= 1 - ended / left
            variance += ended / (left * (left - ended)) if ended < left else inf
            below, above = _band(survival, variance)
            estimate = min(estimate, hours if survival <= HALF else inf)
            low = min(low, hours if below <= HALF else inf)
            high = min(high, hours if above <= HALF else inf)
        left -= len(those)
    every = sum(one.ended for one in ordered)
    if every < MIN_ENDED:
        low, high = 0.0, inf
    return Median(len(ordered), every, estimate, low, high)


def _band(survival: float, variance: float) -> tuple[float, float]:
    """Lower and upper bound of a survival function at one time."""
    if not 0 < survival < 1 or variance == inf:
        return survival, survival
    spread = NORMAL_95 * sqrt(variance) / log(survival)
    return survival ** exp(-spread), survival ** exp(spread)


class Lemon(NamedTuple):
    """A node, its failures, what chance would give it, and how unlikely that many are."""

    host: str
    failures: int
    expected: float
    chance: float


def lemons(failures: Mapping[str, int], hours: Mapping[str, float]) -> list[Lemon]:
    """Nodes with more failures than a Poisson count of the rest of the fleet allows, the worst
    first; of those named at most one in twenty is named by chance. Failures of what has no hours
    (of a job, of a node without GPUs) say nothing of a node.
    """
    found = []
    failures = {host: count for host, count in failures.items() if hours.get(host)}
    for host, count in failures.items():
        others = sum(failures.values()) - count
        other_hours = sum(hours.values()) - hours[host]
        rate = (others + 0.5) / other_hours if other_hours > 0 else inf
        expected = rate * hours[host]
        found.append(Lemon(host, count, expected, _at_least(count, expected)))
    return _discoveries(sorted(found, key=lambda one: one.chance), len(hours))


def _discoveries(ordered: Sequence[Lemon], tests: int) -> list[Lemon]:
    last = 0
    for rank, one in enumerate(ordered, 1):
        if one.chance <= FALSE_DISCOVERIES * rank / max(tests, 1):
            last = rank
    return list(ordered[:last])


def _at_least(count: int, mean: float) -> float:
    """Probability of a Poisson count of that size or more.

    >>> round(_at_least(2, 1.0), 6) == round(1 - 2 * exp(-1), 6), _at_least(0, 3.0)
    (True, 1.0)
    """
    if mean <= 0 or mean == inf:
        return float(mean == inf or count == 0)
    below = sum(exp(k * log(mean) - mean - lgamma(k + 1)) for k in range(count))
    return max(0.0, 1.0 - below)
