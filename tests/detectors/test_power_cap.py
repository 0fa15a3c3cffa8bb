"""A GPU that runs into the power limit its peers do not reach: a fault only where it is slower for
it, and at the default limit.
"""

from __future__ import annotations

import pytest

from detectors.power_cap import FAULT, PowerCap
from tests.detectors.feed import Feed, Number, open_findings, updates

LEAKY = 2


def work(
    own: float = 0.0, others: float = 0.0, *, clock: float = 1.0, limit_w: float = 700.0
) -> dict[str, Number | list[Number]]:
    """Shares of the time under the power cap, of one GPU and of the seven others; the one runs
    at a share of their clock.
    """
    return {
        "gpu_utilization_percent": 99,
        "sm_clock_megahertz": [1755 * clock if row == LEAKY else 1755 for row in range(8)],
        "throttled_power_cap_nanoseconds": [
            1e9 * (own if row == LEAKY else others) for row in range(8)
        ],
        "power_limit_enforced_milliwatts": limit_w * 1000,
        "power_limit_default_milliwatts": 700_000,
    }


@pytest.fixture
def node() -> Feed:
    """A node at work that never runs into its limit."""
    feed = Feed(PowerCap())
    assert feed.run(900, **work()) == []
    return feed


def test_capped_alone_and_slower_is_a_ticket_within_seven_minutes(node: Feed) -> None:
    """60 % of the time where the others are never, and 5 % behind."""
    findings = node.run(420, **work(0.6, clock=0.95))
    assert open_findings(findings) == [("gpu", "GPU-n1-2", FAULT, "ticket")]
    assert findings[0].value == pytest.approx(0.6, abs=0.01)
    assert findings[0].expected == pytest.approx(0.01, abs=0.001)


@pytest.mark.slow
def test_fast_silicon_reaches_the_limit_first(node: Feed) -> None:
    """Capped alone, but as fast as the others: a burn-in at full load (H26)."""
    assert node.run(7200, **work(1.0)) == []


@pytest.mark.slow
def test_all_of_them_capped_are_silent(node: Feed) -> None:
    """Full load: the cap is normal."""
    assert node.run(7200, **work(0.9, 0.8, clock=0.95)) == []


@pytest.mark.slow
def test_a_lower_limit_is_left_to_power_limit(node: Feed) -> None:
    """A cluster under a limit of its owner (H08)."""
    assert node.run(7200, **work(0.9, clock=0.95, limit_w=450)) == []


@pytest.mark.slow
def test_three_of_ten_minutes_are_too_short(node: Feed) -> None:
    """Five are needed."""
    for _ in range(5):
        assert node.run(180, **work(0.6, clock=0.95)) + node.run(420, **work()) == []


def test_a_job_that_evaluates_in_between_hides_nothing(node: Feed) -> None:
    """Three minutes at the limit, two in which nobody needs it, and again."""
    findings = node.run(180, **work(0.6, clock=0.95)) + node.run(120, **work())
    assert findings + node.run(60, **work(0.6, clock=0.95)) == []
    assert open_findings(node.run(120, **work(0.6, clock=0.95))) == [
        ("gpu", "GPU-n1-2", FAULT, "ticket")
    ]


def test_a_clock_that_wanders_is_behind_in_the_mean(node: Feed) -> None:
    """5 % behind and as fast as the others, minute by minute."""
    findings = [
        finding for clock in (0.95, 0.995) * 5 for finding in node.run(60, **work(0.6, clock=clock))
    ]
    assert open_findings(findings) == [("gpu", "GPU-n1-2", FAULT, "ticket")]


@pytest.mark.slow
def test_it_ends_after_five_minutes_without(node: Feed) -> None:
    """And says so once."""
    node.run(600, **work(0.6, clock=0.95))
    assert updates(node.run(600, **work())) == [("gpu", "GPU-n1-2", FAULT, "ticket", "cleared")]
