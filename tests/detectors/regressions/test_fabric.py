"""Ports: evidence about a link on either link layer, and what is none."""

from __future__ import annotations

import pytest

from pipeline.frame import Device
from tests.detectors.port_feed import DOWN, a_link, a_port
from tests.detectors.regressions.node import JudgedNode

ERRORS = "symbol_errors"


@pytest.mark.slow
@pytest.mark.parametrize("layer", ["InfiniBand", "Ethernet"])
def test_symbol_errors_alarm_on_both_link_layers(layer: str) -> None:
    """Gpud looks at link_downed of InfiniBand ports only: here a bad cable is
    reported for a RoCE port too.
    """
    node = JudgedNode(
        ports=[a_port("n1", rail, link_layer=layer) for rail in range(8)], period_s=60
    )
    node.run(3600, symbol_errors=0)
    bad = node.ports[2]
    node.run(1800, {bad.id: {ERRORS: 3}}, symbol_errors=0)
    assert {(f.device.id, f.fault) for f in node.alarms()} == {(bad.id, "ib_ber")}
    assert node.alarms()[-1].severity == "page"


@pytest.mark.slow
def test_a_roce_port_without_symbol_errors_alarms_by_its_damaged_frames() -> None:
    """Ethernet adapters that keep no such counter keep one of frames with a bad checksum."""
    node = JudgedNode(
        ports=[a_port("n1", rail, link_layer="Ethernet") for rail in range(8)], period_s=60
    )
    node.run(3600, net_receive_crc_errors=0)
    node.run(1800, {node.ports[2].id: {"net_receive_crc_errors": 3}}, net_receive_crc_errors=0)
    assert [f.device.id for f in node.alarms()][:1] == [node.ports[2].id]


@pytest.mark.slow
def test_a_link_that_was_lost_because_its_peer_rebooted_is_no_fault() -> None:
    """One end counts a lost link once, and it is back within three minutes."""
    ends = a_link("n1")
    node = JudgedNode(ports=ends)
    node.run(600, link_downed=0)
    node.run(
        10,
        {
            ends[0].id: {"link_downed": 1, "state": DOWN},
            ends[1].id: {"link_downed": 0, "state": DOWN},
        },
    )
    node.run(170, state=DOWN, link_downed=0)
    node.run(900, state=4, link_downed=0)
    assert [f for f in node.alarms() if f.device.kind != "gpu"] == []


@pytest.mark.slow
def test_a_management_port_that_is_never_up_is_silent_for_ever() -> None:
    """It says InfiniBand, nobody cabled it, and nobody declared it."""
    management = Device(
        "n1", "ib_port", "n1/mgmt", {"device": "mlx5_8", "port": "1", "link_layer": "InfiniBand"}
    )
    rails = [a_port("n1", rail) for rail in range(8)]
    node = JudgedNode(ports=[*rails, management], period_s=600)
    node.run(
        24 * 3600,
        {
            management.id: {
                "state": DOWN,
                "expected": 0,
                "rate_bits_per_second": None,
                "width_lanes": None,
            }
        },
    )
    assert node.alarms() == []


@pytest.mark.slow
def test_one_unreadable_moment_fabricates_no_fault() -> None:
    """A read that fails gives no state and no counters; the next gives them
    again: nothing happened.
    """
    node = JudgedNode()
    node.run(600, symbol_errors=0, link_downed=0)
    nothing = dict.fromkeys(
        (
            "state",
            "expected",
            "rate_bits_per_second",
            "width_lanes",
            "transmit_words",
            "receive_words",
        )
    )
    for _ in range(5):
        node.run(
            30, {port.id: nothing for port in node.ports}, symbol_errors=None, link_downed=None
        )
        node.run(300, symbol_errors=0, link_downed=0)
    assert node.alarms() == []


@pytest.mark.slow
def test_a_link_that_flaps_again_after_its_repair_alarms_again() -> None:
    """Fatal the first time, repaired, clean for eight hours: the second
    episode is a page of its own.
    """
    node = JudgedNode()
    port = node.ports[1]
    node.run(600, link_downed=0)
    for _ in range(2):
        for _ in range(3):
            node.run(40, {port.id: {"state": DOWN, "link_downed": 0}}, link_downed=0)
            node.run(10, {port.id: {"link_downed": 1}}, link_downed=0)
            node.run(300, link_downed=0)
        node.period_s = 90
        node.run(8 * 3600, link_downed=0)
        node.period_s = 10
    assert [f.phase for f in node.findings if f.fault == "ib_flap"] == [
        "onset",
        "cleared",
        "onset",
        "cleared",
    ]
