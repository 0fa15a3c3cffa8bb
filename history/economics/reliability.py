"""How often parts fail and how long a repair takes, with exact intervals; nodes that fail more
often than chance allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import exp, inf, lgamma, log
from typing import NamedTuple

from evaluation.metrics.intervals import poisson_interval

HOUR_MS = 3_600_000
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


def median_duration(durations: Iterable[Duration]) -> float:
    """Median by the product-limit estimate (Kaplan and Meier 1958): repairs that still last count
    for as long as they have; infinite where half have not ended yet.

    >>> median_duration([Duration(1, True), Duration(2, True), Duration(9, False)])
    2
    >>> median_duration([Duration(1, True), Duration(2, False), Duration(9, False)])
    inf
    """
    ordered = sorted(durations, key=lambda one: (one.hours, not one.ended))
    left, survival = len(ordered), 1.0
    for one in ordered:
        if one.ended:
            survival *= 1 - 1 / left
            if survival <= 0.5 + 1e-12:
                return one.hours
        left -= 1
    return inf


class Lemon(NamedTuple):
    """A node, its failures, what chance would give it, and how unlikely that many are."""

    host: str
    failures: int
    expected: float
    chance: float


def lemons(failures: Mapping[str, int], hours: Mapping[str, float]) -> list[Lemon]:
    """Nodes with more failures than a Poisson count of the rest of the fleet allows, the worst
    first; of those named at most one in twenty is named by chance.
    """
    found = []
    for host, count in failures.items():
        others = sum(failures.values()) - count
        other_hours = sum(hours.values()) - hours.get(host, 0.0)
        rate = (others + 0.5) / other_hours if other_hours > 0 else inf
        expected = rate * hours.get(host, 0.0)
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
