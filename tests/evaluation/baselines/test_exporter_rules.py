"""Published alerting rules over dcgm-exporter, with their known verdicts, right and wrong."""

from __future__ import annotations

from evaluation.baselines.exporter_rules import ExporterRules
from tests.evaluation.baselines.world import Node, outcomes


def test_the_gauge_of_the_last_xid_never_clears() -> None:
    """A harmless 43 pages, and is still open after a clean day."""
    node = Node(ExporterRules())
    assert ("XID_ERRORS > 0", "onset", "page") in outcomes(node.xid(43))
    node.gpus({}, steps=144, every_s=600)
    assert ("XID_ERRORS > 0", "cleared", "page") not in outcomes(node.findings)


def test_a_repetition_is_not_seen() -> None:
    """31 and an hour later 31 again: the gauge does not move, no alert."""
    node = Node(ExporterRules())
    node.xid(31)
    node.gpus({}, steps=360)
    assert node.xid(31) == []


def test_a_fall_from_94_to_13_counts_as_an_increase() -> None:
    """The rule takes a gauge for a counter: its fall is a reset and then 13 more."""
    node = Node(ExporterRules())
    node.xid(94)
    node.gpus({}, steps=360)
    assert outcomes(node.xid(13)) == [("increase(XID_ERRORS)", "onset", "ticket")]


def test_hot_for_five_minutes_warns() -> None:
    """86 degrees: not after 4:50, but after 5:00; and it clears at once at 85."""
    node = Node(ExporterRules())
    assert node.gpus({"temperature_celsius": 86}, steps=30) == []
    assert outcomes(node.gpus({"temperature_celsius": 86})) == [("hot", "onset", "ticket")]
    assert outcomes(node.gpus({"temperature_celsius": 85})) == [("hot", "cleared", "ticket")]


def test_a_break_begins_the_wait_anew() -> None:
    """Four minutes hot, one reading cool, four minutes hot: silence."""
    node = Node(ExporterRules())
    node.gpus({"temperature_celsius": 86}, steps=24)
    node.gpus({"temperature_celsius": 80})
    assert node.gpus({"temperature_celsius": 86}, steps=24) == []


def test_one_replay_warns() -> None:
    """A rate above zero, however small, for as long as the window remembers it."""
    node = Node(ExporterRules())
    node.gpus({"pcie_replays": 0})
    assert outcomes(node.gpus({"pcie_replays": 1}, steps=31)) == [
        ("rate(PCIE_REPLAY) > 0", "onset", "ticket"),
        ("rate(PCIE_REPLAY) > 0", "cleared", "ticket"),
    ]
