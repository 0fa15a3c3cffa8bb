"""When the small faults of a node make it a lemon, and how rarely chance does."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from detectors.incidents.lemon import DAY_NS, LIMIT, Lemons

# Faults of a node in a day: 584 of 400 nodes in 349 days, of which a tenth of the nodes had 41 %
# (InfiniteHBD, arXiv 2502.03885).
MEAN, WORST_TENTH = 584 / 400 / 349, 4.1 * 584 / 400 / 349
FAULTS, YEAR_DAYS = 100_000, 365.25


@pytest.mark.parametrize("at_days", [(0, 5, 10, 15, 20), (0, 1, 2, 3, 20), (0, 17, 18, 19, 20)])
def test_five_faults_of_a_node_within_twenty_days_make_it_a_lemon(at_days: Sequence[float]) -> None:
    """However they lie."""
    lemons = Lemons()
    kinds = ("ecc", "xid", "pcie", "thermal", "power")
    counts = [
        lemons.count("n1", kind, "gpu GPU-1", round(day * DAY_NS))
        for kind, day in zip(kinds, at_days, strict=True)
    ]
    assert max(counts) >= LIMIT


@pytest.mark.slow
@pytest.mark.parametrize(
    ("per_day", "least_years", "most_years"), [(MEAN, 4000, 40_000), (WORST_TENTH, 15, 22)]
)
def test_chance_makes_few_lemons(per_day: float, least_years: float, most_years: float) -> None:
    """Independent faults of ever new kinds, at published rates: the mean node once in thousands of
    years, the worst tenth once in eighteen.
    """
    lemons, rng, days, updates, stands = Lemons(), random.Random(1), 0.0, 0, False
    for number in range(FAULTS):
        days += rng.expovariate(per_day)
        now_ns = round(days * DAY_NS)
        stands = stands and lemons.now("n1", now_ns) >= LIMIT / 2
        if lemons.count("n1", f"fault {number}", "gpu GPU-1", now_ns) >= LIMIT and not stands:
            updates, stands = updates + 1, True
    assert least_years < days / YEAR_DAYS / updates < most_years
