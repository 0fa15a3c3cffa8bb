"""gpud's components, with their documented verdicts, right and wrong."""

from __future__ import annotations

from evaluation.baselines.gpud import Gpud
from tests.evaluation.baselines.world import Node, outcomes

DOWN, SLOW = {"state": 1}, {"clock_event_reasons": 0x40}


def test_three_flaps_are_unhealthy_until_somebody_says_otherwise() -> None:
    """Three times down for 30 s: reported when it is active for the third time, and a clean
    day later it is still open.
    """
    node = Node(Gpud())
    for _ in range(3):
        node.ports(DOWN, steps=4)
        node.ports({}, steps=10)
    assert outcomes(node.findings) == [("port flaps", "onset", "page")]
    assert node.ports({}, steps=144, every_s=600) == []


def test_a_port_down_for_four_minutes_is_dropped_and_sticks_for_ten() -> None:
    """Down for 240 s it is reported, not before; ten minutes after it came back it is cleared."""
    node = Node(Gpud())
    assert node.ports(DOWN, steps=24) == []
    assert outcomes(node.ports(DOWN)) == [("port dropped", "onset", "page")]
    assert node.ports({}, steps=60) == []
    assert outcomes(node.ports({})) == [("port dropped", "cleared", "page")]


def test_roce_ports_are_not_looked_at() -> None:
    """An Ethernet link may stay down for an hour."""
    assert Node(Gpud()).ports(DOWN, link_layer="Ethernet", steps=360) == []


def test_ecc_errors_never_change_health() -> None:
    """Uncorrectable errors without an XID are a metric, no verdict."""
    node = Node(Gpud())
    node.gpus({"ecc_uncorrected_volatile": 0, "ecc_uncorrected_aggregate": 0})
    assert (
        node.gpus({"ecc_uncorrected_volatile": 5, "ecc_uncorrected_aggregate": 5}, steps=100) == []
    )


def test_an_xid_of_a_mig_instance_is_missed() -> None:
    """Its pattern does not know ``GPU-I:02 GPU-CI:00``; the same code of a complete GPU is
    reported.
    """
    node = Node(Gpud())
    assert node.xid(95, gpu_instance=2) == []
    assert outcomes(node.xid(95)) == [("XID 95", "onset", "page")]


def test_a_reboot_clears_xids() -> None:
    """A reload of the GPU's driver ends what was reported before it; time alone does not."""
    node = Node(Gpud())
    node.xid(79, epoch="a")
    assert node.gpus({}, epoch="a", steps=144, every_s=600) == []
    assert outcomes(node.gpus({}, epoch="b")) == [("XID 79", "cleared", "page")]


def test_hardware_slowdown_in_six_of_ten_minutes_is_degraded() -> None:
    """Five and a half minutes of ten are not, six are."""
    node = Node(Gpud())
    node.gpus({})
    assert node.gpus(SLOW, steps=33) == []
    assert outcomes(node.gpus(SLOW, steps=3)) == [("hardware slowdown", "onset", "ticket")]
