"""NVSentinel's monitors, with their documented verdicts, right and wrong."""

from __future__ import annotations

import pytest

from evaluation.baselines.nvsentinel import NvSentinel
from tests.evaluation.baselines.world import Node, outcomes


def test_any_link_downed_is_fatal() -> None:
    """One count, as when the node at the other end reboots, pages."""
    node = Node(NvSentinel())
    node.ports({"link_downed": 3})
    assert outcomes(node.ports({"link_downed": 4})) == [
        ("link_downed > 0 in 60 s", "onset", "page")
    ]


@pytest.mark.slow
def test_120_symbol_errors_an_hour_are_fatal_at_any_speed() -> None:
    """Twenty an hour, far beyond the specification of an HDR link, are silent; 121 within one
    page, fast link or slow.
    """
    quiet, loud = Node(NvSentinel()), Node(NvSentinel())
    assert [
        f for hour in range(1, 4) for f in quiet.ports({"symbol_errors": 20 * hour}, steps=360)
    ] == []
    loud.ports({"symbol_errors": 0})
    assert outcomes(loud.ports({"symbol_errors": 121})) == [
        ("symbol_errors > 120 in 3600 s", "onset", "page")
    ]


@pytest.mark.slow
def test_a_counter_stuck_at_its_maximum_is_a_rate_of_zero() -> None:
    """65535 for hours means unknown; here it means that nothing happens."""
    node = Node(NvSentinel())
    assert node.ports({"symbol_errors": 65535}, steps=720) == []


def test_xid_45_is_taken_for_hardware() -> None:
    """The symptom of a crashed job pages."""
    assert outcomes(Node(NvSentinel()).xid(45)) == [("XID 45", "onset", "page")]


def test_the_third_mild_event_of_an_hour_is_fatal() -> None:
    """Carrier changes three times, each time three in a minute: a ticket
    each, the third a page too.
    """
    node = Node(NvSentinel())
    node.ports({"net_carrier_changes": 0})
    for burst in (3, 6, 9):
        node.ports({"net_carrier_changes": burst}, steps=30)
    onsets = [f for f in node.findings if f.phase == "onset"]
    assert [(f.summary, f.severity) for f in onsets[-2:]] == [
        ("net_carrier_changes > 2 in 60 s", "ticket"),
        ("escalated", "page"),
    ]
    assert [f.severity for f in onsets].count("page") == 1
