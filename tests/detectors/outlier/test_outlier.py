"""A GPU that is odd in a combination of quantities is recorded with their names; odd jobs, phases
and short spells are not.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from detectors.kit.snapshot import dump, load
from detectors.outlier import Outlier
from pipeline.finding import Finding
from tests.detectors.feed import Feed, relapse, updates

GPUS = 8
NONE: dict[int, dict[str, float]] = {}
# less power, and hotter: each within what GPUs differ by
ODD = {3: {"power_milliwatts": -60_000.0, "temperature_celsius": 6.0}}


class Fleet:
    """Eight GPUs of one node, read once a minute.

    More load is more power and more heat; silicon and sensors differ.
    """

    def __init__(self, detector: Outlier) -> None:
        self.rng = np.random.default_rng(5)
        self.own = self.rng.normal(0, 1, GPUS)
        self.feed = Feed(detector, gpus=GPUS, period_s=60.0)

    def minutes(
        self, minutes: float, odd: dict[int, dict[str, float]] = NONE, *, load: float = 0.0
    ) -> list[Finding]:
        """So long, with these GPUs further away in these quantities, at so
        many watts more for all.
        """
        return [finding for _ in range(round(minutes)) for finding in self._minute(odd, load)]

    def _minute(self, odd: dict[int, dict[str, float]], load: float) -> list[Finding]:
        draws = self.rng.normal(0, 20, GPUS) + load
        values = {
            "power_milliwatts": 550_000 + 1000 * draws + 8000 * self.own,
            "temperature_celsius": 62 + 0.1 * draws + self.own + self.rng.normal(0, 0.3, GPUS),
            "sm_clock_megahertz": 1700 + self.rng.normal(0, 8, GPUS),
            "gpu_utilization_percent": np.full(GPUS, 99.0),
        }
        for row, more in odd.items():
            for name, by in more.items():
                values[name][row] += by
        return self.feed.run(60, **{name: x.tolist() for name, x in values.items()})


@cache
def experience() -> bytes:
    """What it remembers of fifteen hours and one block in five hundred: they replace a
    week and one in 100,000.
    """
    fleet = Fleet(Outlier(warm_ns=0, tail=2e-3))
    fleet.minutes(900)
    return dump([fleet.feed.detector])


def known() -> Fleet:
    """A fleet that is known well enough to be judged."""
    fleet = Fleet(Outlier(warm_ns=0, tail=2e-3))
    assert load(experience(), [fleet.feed.detector]) == ()
    fleet.feed.clock.advance(900 * 60)
    return fleet


@pytest.mark.slow
def test_a_combination_that_no_gpu_shows_is_recorded_with_the_quantities() -> None:
    """Less power and more heat, three sigma of each: neither is odd by itself."""
    findings = known().minutes(20, ODD)
    assert updates(findings) == [("gpu", "GPU-n1-3", "outlier", "record", "onset")]
    assert {words.partition(":")[0] for words in findings[0].evidence[1:3]} == {
        "temperature",
        "power",
    }


@pytest.mark.slow
def test_a_short_spell_is_silent() -> None:
    """Four odd minutes of six are not enough."""
    fleet = known()
    assert fleet.minutes(4, ODD) + fleet.minutes(60) == []


@pytest.mark.slow
def test_what_all_peers_do_is_silent() -> None:
    """The job drew more power: everybody's power and heat went up."""
    assert known().minutes(120, load=80.0) == []


@pytest.mark.slow
def test_a_gpu_that_always_is_a_little_different_is_silent() -> None:
    """Its own place among its peers is learnt before it is judged."""
    fleet = Fleet(Outlier(warm_ns=0, tail=2e-3))
    lasting = {2: {"temperature_celsius": 8.0}}
    assert fleet.minutes(1000, lasting) == []


@pytest.mark.slow
def test_a_class_is_not_judged_before_its_first_week() -> None:
    """Its jobs differ from day to day."""
    fleet = Fleet(Outlier(tail=2e-3))
    assert fleet.minutes(900) + fleet.minutes(60, ODD) == []


@pytest.mark.slow
def test_it_clears_when_the_gpu_is_like_the_others_again() -> None:
    """After five minutes, with the id of its onset."""
    fleet = known()
    (onset,) = fleet.minutes(20, ODD)
    (cleared,) = fleet.minutes(20)
    assert (cleared.id, cleared.phase) == (onset.id, "cleared")


@pytest.mark.slow
def test_what_comes_back_and_goes_again_within_the_rest_is_not_told_after_it() -> None:
    """Two odd spells of one hour."""
    fleet = known()
    assert (
        relapse(fleet.feed.clock, lambda: fleet.minutes(20, ODD), lambda: fleet.minutes(10)) == []
    )
