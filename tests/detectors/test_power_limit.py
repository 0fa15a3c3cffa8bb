"""A limit lower than it should be is reported for the GPU or the node; a cap
that the site chose is not.
"""

from __future__ import annotations

import pytest

from detectors.power_limit import LOW, POLICY, PowerLimit
from tests.detectors.feed import Feed, open_findings, updates

Watts = float | list[float]


def limits(
    enforced: Watts, requested: Watts | None = 700.0, default: float = 700.0
) -> dict[str, float | list[float | None] | None]:
    """Columns in milliwatts."""

    def milli(watts: Watts | None) -> float | list[float | None] | None:
        return (
            watts
            if watts is None
            else [w * 1000 for w in watts]
            if isinstance(watts, list)
            else watts * 1000
        )

    return {
        "power_limit_enforced_milliwatts": milli(enforced),
        "power_limit_requested_milliwatts": milli(requested),
        "power_limit_default_milliwatts": milli(default),
    }


def one(low: float, row: int = 2) -> list[float]:
    """This limit on one of eight GPUs."""
    return [low if i == row else 700.0 for i in range(8)]


@pytest.fixture
def node() -> Feed:
    """A node that has run at its default limits for ten minutes."""
    feed = Feed(PowerLimit())
    assert feed.run(600, **limits(700.0)) == []
    return feed


def test_a_gpu_below_its_default_is_a_ticket_within_five_minutes(node: Feed) -> None:
    """Set by the board controller: the requested limit did not change (F15)."""
    findings = node.run(300, **limits(one(560.0)))
    assert open_findings(findings) == [("gpu", "GPU-n1-2", LOW, "ticket")]
    assert (findings[0].value, findings[0].expected) == (560.0, 700.0)
    assert "700 W were requested: something out of band" in findings[0].evidence[0]


def test_all_gpus_of_a_node_below_their_default_are_the_nodes(node: Feed) -> None:
    """One ticket about the node, none about its GPUs."""
    assert open_findings(node.run(600, **limits(560.0))) == [("node", "n1", LOW, "ticket")]


def test_a_limit_that_only_one_gpu_was_given_is_told(node: Feed) -> None:
    """Asked for through the driver, but not on its peers: it was not taken back."""
    findings = node.run(600, **limits(one(560.0), requested=one(560.0)))
    assert open_findings(findings) == [("gpu", "GPU-n1-2", LOW, "ticket")]
    assert "not on its peers" in findings[0].evidence[0]


@pytest.mark.slow
@pytest.mark.parametrize("requested", [600.0, None])
def test_a_cap_that_was_there_from_the_start_is_policy(requested: float | None) -> None:
    """A power-capped cluster (H08) is a record, also where nobody can read what was asked for."""
    feed = Feed(PowerLimit())
    assert open_findings(feed.run(86400, **limits(600.0, requested))) == [
        ("node", "n1", POLICY, "record")
    ]


def test_a_cap_that_nobody_asked_for_is_told_though_it_was_there_from_the_start() -> None:
    """The board controller held the node down before the agent was installed."""
    feed = Feed(PowerLimit())
    assert open_findings(feed.run(600, **limits(500.0))) == [("node", "n1", LOW, "ticket")]


@pytest.mark.slow
def test_a_cap_that_was_declared_is_silent_though_nobody_asked_for_it() -> None:
    """The site caps its GPUs through their board controllers, and says so."""
    feed = Feed(PowerLimit({"gpu.power_limit": "500"}))
    assert feed.run(86400, **limits(500.0)) == []
    assert open_findings(feed.run(600, **limits([500.0] * 7 + [400.0]))) == [
        ("gpu", "GPU-n1-7", LOW, "ticket")
    ]


def test_a_cap_that_is_declared_later_ends_the_ticket(node: Feed) -> None:
    """The site reads the ticket and declares what it meant: after the restart the
    learnt limit counts no more.
    """
    node.run(600, **limits(500.0))
    later = PowerLimit({"gpu.power_limit": "500"})
    later.restore(node.detector.state())  # type: ignore[attr-defined] # it remembers
    node.detector = later
    assert updates(node.run(600, **limits(500.0))) == [("node", "n1", LOW, "ticket", "cleared")]


def test_a_cap_asked_for_on_all_gpus_is_policy(node: Feed) -> None:
    """nvidia-smi -pl on the whole node, while it runs."""
    assert open_findings(node.run(3600, **limits(600.0, requested=600.0))) == [
        ("node", "n1", POLICY, "record")
    ]


def test_a_gpu_below_the_policy_is_told() -> None:
    """The policy is what is expected then."""
    feed = Feed(PowerLimit())
    feed.run(600, **limits(600.0, requested=600.0))
    findings = feed.run(600, **limits([600.0] * 7 + [450.0], requested=600.0))
    assert open_findings(findings) == [("gpu", "GPU-n1-7", LOW, "ticket")]
    assert findings[0].expected == 600.0


def test_a_gpu_that_lost_its_cap_by_a_reset_and_gets_it_again_is_silent() -> None:
    """After a reset the default holds until the site's script sets the cap again."""
    feed = Feed(PowerLimit())
    feed.run(600, **limits(600.0, requested=None))
    assert feed.run(900, **limits([600.0] * 7 + [700.0], requested=None)) == []
    assert feed.run(900, **limits(600.0, requested=None)) == []


def test_a_cap_that_was_lifted_is_policy_no_more() -> None:
    """The record ends when all GPUs are back at their default."""
    feed = Feed(PowerLimit())
    feed.run(600, **limits(600.0, requested=600.0))
    assert updates(feed.run(600, **limits(700.0))) == [("node", "n1", POLICY, "record", "cleared")]


def test_a_short_dip_is_silent(node: Feed) -> None:
    """Two minutes below."""
    assert node.run(120, **limits(one(560.0))) == []
    assert node.run(600, **limits(700.0)) == []


def test_it_ends_when_the_limit_is_back(node: Feed) -> None:
    """Cleared after five minutes at what is expected."""
    node.run(600, **limits(one(560.0)))
    assert updates(node.run(420, **limits(700.0))) == [
        ("gpu", "GPU-n1-2", LOW, "ticket", "cleared")
    ]


@pytest.mark.slow
def test_unobserved_limits_change_nothing(node: Feed) -> None:
    """Neither an onset nor an end while nothing is read."""
    node.run(600, **limits(one(560.0)))
    assert node.run(3600) == []


def test_gpus_of_two_models_have_limits_of_their_own() -> None:
    """A mixed node (H07): each model at its default."""
    feed = Feed(PowerLimit())
    feed.gpus = [
        type(g)(g.host, g.kind, g.id, {**g.attributes, "name": "A" if i < 4 else "B"})
        for i, g in enumerate(feed.gpus)
    ]
    mixed = [700.0] * 4 + [350.0] * 4
    columns = limits(mixed, requested=mixed) | {
        "power_limit_default_milliwatts": [w * 1000 for w in mixed]
    }
    assert feed.run(3600, **columns) == []
