"""Ports that are down, gone or slow."""

from __future__ import annotations

import pytest

from detectors.infiniband import IbLink
from pipeline.frame import Device
from tests.detectors.feed import open_findings
from tests.detectors.port_feed import ABSENT, DOWN, NDR, PortFeed, a_link, a_port

RAILS = [a_port("n1", rail) for rail in range(8)]
ONE = RAILS[3]
MINUTE = 60
INIT, POLLING, DISABLED = 2, 2, 3  # a port state, and two physical states
WORDS: dict[str, float] = {
    "transmit_words": 10 * 12_500_000_000 // 8,
    "receive_words": 10 * 12_500_000_000 // 8,
}  # a quarter of NDR


UNREAD: dict[str, float | None] = dict.fromkeys(
    ("state", "rate_bits_per_second", "width_lanes", "expected")
)


@pytest.fixture
def node() -> PortFeed:
    """Eight rails that have been up for five minutes."""
    feed = PortFeed(IbLink(), RAILS)
    assert feed.run(300) == []
    return feed


def own(port: Device, **values: float | None) -> dict[str, dict[str, float | None]]:
    """Values of one port."""
    return {port.id: values}


@pytest.mark.parametrize("hosts", [{"hosts": 4}, {"hosts": 1}, {}])
def test_a_link_that_goes_down_under_a_job_is_a_ticket_within_a_minute(
    node: PortFeed, hosts: dict[str, int]
) -> None:
    """It names the job, and still does after the job has died of it; a page after ten minutes."""
    host = Device(ONE.host, "node", ONE.host)
    node.event(host, "job_started", job="4711", gpus="GPU-a", **hosts)
    findings = node.run(60, own(ONE, state=DOWN))
    assert open_findings(findings) == [("ib_port", ONE.id, "ib/link_down", "ticket")]
    node.event(host, "job_ended", job="4711")
    findings += node.run(600, own(ONE, state=DOWN))
    assert open_findings(findings) == [("ib_port", ONE.id, "ib/link_down", "page")]
    assert {one.device.attributes["job"] for one in findings} == {"4711"}
    assert all("is down under job 4711: " in one.summary for one in findings)


@pytest.mark.parametrize(("job", "times"), [(True, 2), (False, 1)])
def test_a_link_that_goes_down_again_under_a_job_is_reported_again(
    node: PortFeed, *, job: bool, times: int
) -> None:
    """Within the hour after the first time: what stops a job is no flicker."""
    host = Device(ONE.host, "node", ONE.host)
    if job:
        node.event(host, "job_started", job="4711", gpus="GPU-a", hosts=4)
    findings = [f for _ in range(2) for f in node.run(300, own(ONE, state=DOWN)) + node.run(300)]
    assert [f.phase for f in findings] == ["onset", "cleared"] * times


def test_a_link_that_retrains_under_a_job_is_not_reported(node: PortFeed) -> None:
    """Half a minute, many times over."""
    host = Device(ONE.host, "node", ONE.host)
    node.event(host, "job_started", job="4711", gpus="GPU-a", hosts=4)
    findings = [f for _ in range(5) for f in node.run(30, own(ONE, state=DOWN)) + node.run(90)]
    assert findings == []


def test_the_job_that_is_named_is_the_one_that_needs_the_network_most(node: PortFeed) -> None:
    """Two jobs share the node; one of them has four nodes."""
    host = Device(ONE.host, "node", ONE.host)
    node.event(host, "job_started", job="1", gpus="GPU-a", hosts=1)
    node.event(host, "job_started", job="2", gpus="GPU-b", hosts=4)
    (finding,) = node.run(60, own(ONE, state=DOWN))
    assert finding.device.attributes["job"] == "2"


def test_a_port_that_stays_down_is_a_ticket_after_four_minutes_and_a_page_after_ten(
    node: PortFeed,
) -> None:
    """Not before: a link that trains again comes back, and so does a neighbour that reboots; it
    clears a minute after it does.
    """
    assert node.run(230, own(ONE, state=DOWN)) == []
    assert open_findings(node.run(20, own(ONE, state=DOWN))) == [
        ("ib_port", ONE.id, "ib/link_down", "ticket")
    ]
    assert node.run(340, own(ONE, state=DOWN)) == []
    assert open_findings(node.run(20, own(ONE, state=DOWN))) == [
        ("ib_port", ONE.id, "ib/link_down", "page")
    ]
    assert [f.phase for f in node.run(90)] == ["cleared"]


@pytest.mark.slow
def test_a_port_that_waits_for_the_subnet_manager_sends_nobody_to_its_cable(
    node: PortFeed,
) -> None:
    """State init: its link is up. Once the link is lost it is the cable, in the same finding."""
    waits = node.run(300, own(ONE, state=INIT))
    assert "subnet manager" in waits[0].summary
    assert "cable" not in waits[0].summary
    assert "cable" in node.run(600, own(ONE, state=DOWN))[-1].summary


def test_a_port_that_was_never_up_is_silent() -> None:
    """Regression: a management adapter set to InfiniBand is no permanent alarm."""
    feed = PortFeed(IbLink(), [a_port("n1", 8)])
    assert feed.run(3600, state=DOWN, expected=0) == []


@pytest.mark.slow
def test_a_port_that_somebody_disabled_is_recorded_and_wakes_nobody(node: PortFeed) -> None:
    """Also where it was paged as down before: that ends.

    Enabled again and still without a link, it is a fault from then on.
    """
    off = own(ONE, state=DOWN, physical_state=DISABLED)
    assert open_findings(node.run(3600, off)) == [("ib_port", ONE.id, "ib/port_disabled", "record")]
    assert node.run(230, own(ONE, state=DOWN, physical_state=POLLING))[0].phase == "cleared"
    down = node.run(430, own(ONE, state=DOWN, physical_state=POLLING))
    assert open_findings(down) == [("ib_port", ONE.id, "ib/link_down", "page")]
    assert open_findings([*down, *node.run(3600, off)]) == [
        ("ib_port", ONE.id, "ib/port_disabled", "record")
    ]


def test_an_ethernet_port_without_a_carrier_is_down_though_its_driver_calls_it_disabled() -> None:
    """mlx5 and bnxt call every RoCE port without a carrier disabled: a pulled cable
    must not hide behind that.
    """
    port = a_port("n1", 3, link_layer="Ethernet")
    feed = PortFeed(IbLink(), [port])
    feed.run(300)
    assert open_findings(feed.run(660, state=DOWN, physical_state=DISABLED)) == [
        ("ib_port", port.id, "ib/link_down", "page")
    ]


@pytest.mark.slow
def test_a_port_that_is_no_longer_expected_is_silent_and_what_stood_of_it_ends(
    node: PortFeed,
) -> None:
    """What is declared decides, not that it was active once."""
    assert open_findings(node.run(660, own(ONE, state=DOWN)))
    assert [f.phase for f in node.run(3600, own(ONE, state=DOWN, expected=0))] == ["cleared"]


def test_what_a_port_was_down_before_the_boot_does_not_count(node: PortFeed) -> None:
    """Down for 200 s while the node shut down and not active for 50 s after the boot
    are not four minutes down.
    """
    node.run(200, state=DOWN)
    node.boot = "boot-2"
    node.clock.advance(300)
    assert [*node.run(50, state=INIT), *node.run(300)] == []


def test_an_adapter_that_is_gone_is_told_within_a_minute(node: PortFeed) -> None:
    """Absent is what the source says of a port that it knows and does not find; one reading
    of the minute may be lost.
    """
    node.run(10, own(ONE, state=DOWN))  # as adapters are that die, before they vanish
    gone = node.run(20, own(ONE, state=ABSENT, rate_bits_per_second=None, width_lanes=None))
    gone += node.run(10, own(ONE, **UNREAD))
    gone += node.run(20, own(ONE, state=ABSENT, rate_bits_per_second=None, width_lanes=None))
    assert open_findings(gone) == [("ib_port", ONE.id, "ib/adapter_gone", "page")]


def test_adapters_that_all_go_while_their_driver_is_loaded_anew_are_silent(node: PortFeed) -> None:
    """All absent for two minutes, then back one after the other: there is no finding, however
    often.
    """
    gone = {"state": ABSENT, "rate_bits_per_second": None, "width_lanes": None}
    for _ in range(3):
        assert node.run(120, {port.id: gone for port in RAILS}) == []
        for back in range(8):
            assert node.run(20, {port.id: gone for port in RAILS[back:]}) == []
        assert node.run(120) == []


def test_an_adapter_that_its_driver_did_not_bring_back_is_told_after_ten_minutes(
    node: PortFeed,
) -> None:
    """The others are back within a minute: this one is not being updated any more."""
    node.run(MINUTE, state=ABSENT)
    assert node.run(500, own(ONE, state=ABSENT)) == []
    assert open_findings(node.run(MINUTE, own(ONE, state=ABSENT))) == [
        ("ib_port", ONE.id, "ib/adapter_gone", "page")
    ]


def test_one_adapter_that_is_reset_is_silent(node: PortFeed) -> None:
    """Absent for half a minute."""
    assert [*node.run(30, own(ONE, state=ABSENT)), *node.run(300)] == []


@pytest.mark.slow
def test_what_stood_of_an_adapter_leaves_with_it() -> None:
    """Another adapter in its slot: nobody waits for the old one to come back."""
    old = a_port("n1", 3, pci_bus_id="0000:5e:00.0")
    feed = PortFeed(IbLink(), [*RAILS[:3], old])
    feed.run(300)
    assert open_findings(feed.run(MINUTE, own(old, state=ABSENT))) == [
        ("ib_port", old.id, "ib/adapter_gone", "page")
    ]
    feed.ports = (*RAILS[:3], Device("n1", "ib_port", "0xnew", old.attributes))
    assert [f.phase for f in feed.run(3600)] == ["cleared"]


def test_half_the_lanes_are_a_page(node: PortFeed) -> None:
    """4x to 2x, with the rate that it had before in the evidence."""
    findings = node.run(MINUTE, own(ONE, width_lanes=2, rate_bits_per_second=NDR / 2))
    assert open_findings(findings) == [("ib_port", ONE.id, "ib/slow_link", "page")]
    assert "400 Gb/s before" in findings[0].evidence[1]


@pytest.mark.parametrize("rate", [NDR, 2 * NDR])
def test_fewer_lanes_that_carry_as_much_are_no_slow_link(rate: float) -> None:
    """A port that was recabled from 4X EDR to HDR100 (2X HDR), or from 4X HDR to 2X NDR or XDR."""
    feed = PortFeed(IbLink(), RAILS[:2])
    feed.run(300)
    assert feed.run(300, rate_bits_per_second=rate, width_lanes=2) == []


def test_a_port_that_was_always_slower_than_its_role_is_a_ticket_and_without_a_role_a_record() -> (
    None
):
    """A rail is meant to be as fast as the others; a port of no rail may be meant slow."""
    slow = a_port("n1", 7)
    feed = PortFeed(IbLink(), [*RAILS[:7], slow])
    assert [f.severity for f in feed.run(300, own(slow, rate_bits_per_second=NDR / 2))] == [
        "ticket"
    ]
    plain = [
        Device("n1", "ib_port", p.id, {k: v for k, v in p.attributes.items() if k != "rail"})
        for p in RAILS
    ]
    feed = PortFeed(IbLink(), plain)
    assert [f.severity for f in feed.run(300, own(slow, rate_bits_per_second=NDR / 2))] == [
        "record"
    ]


def test_ports_that_are_all_set_to_a_lower_speed_become_normal(node: PortFeed) -> None:
    """When most ports of a role have changed, that is how fast the role is: nobody
    is reported for each of them.
    """
    assert all(f.severity != "page" for f in node.run(600, rate_bits_per_second=NDR / 2))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ports", "left"), [(RAILS[2:4], []), (RAILS, [("ib_port", ONE.id, "ib/slow_link", "ticket")])]
)
def test_a_lower_speed_is_a_page_for_a_week_at_most(
    ports: list[Device], left: list[tuple[str, str, str, str]]
) -> None:
    """A port that was moved to a slower switch: that is its new normal, and a ticket where the
    other rails are faster still.
    """
    feed = PortFeed(IbLink(), ports, period_s=3600)
    feed.run(36000)
    findings = feed.run(6 * 86400, own(ONE, rate_bits_per_second=NDR / 2))
    assert open_findings(findings) == [("ib_port", ONE.id, "ib/slow_link", "page")]
    findings += feed.run(20 * 86400, own(ONE, rate_bits_per_second=NDR / 2))
    assert open_findings(findings) == left
    assert [f.phase for f in findings].count("cleared") == 1


@pytest.mark.parametrize("mark", [float("inf"), 140737488355328.0])
def test_a_rate_that_is_a_mark_of_no_value_is_not_what_the_port_should_have(mark: float) -> None:
    """A port of no known model is held to its own best: learnt as that, the mark
    would make it slow for ever.
    """
    feed = PortFeed(IbLink(), [Device("n1", "ib_port", ONE.id, {"device": "mlx5_3", "port": "1"})])
    assert feed.run(300, rate_bits_per_second=mark, width_lanes=mark) == []
    assert feed.run(600) == []


@pytest.mark.slow
def test_what_is_not_read_changes_nothing(node: PortFeed) -> None:
    """NaN for an hour is neither down nor up."""
    assert node.run(3600, own(ONE, **UNREAD)) == []


def test_both_ends_of_a_link_that_is_down_are_one_finding() -> None:
    """The node's end reports the link."""
    ends = a_link("n1")
    feed = PortFeed(IbLink(), ends)
    feed.run(300)
    assert open_findings(feed.run(660, state=DOWN)) == [
        ("ib_port", ends[0].id, "ib/link_down", "page")
    ]


@pytest.mark.slow
def test_a_leaf_switch_that_reboots_is_silent_and_one_that_stays_away_is_the_switch() -> None:
    """Twelve ports of a leaf down together: ten minutes are a reboot, twenty are a dead switch,
    reported once and for the switch.
    """
    ports = [end for n in range(12) for end in a_link(f"n{n}")]
    feed = PortFeed(IbLink(), ports)
    feed.run(300)
    assert feed.run(600, state=DOWN) == []
    assert feed.run(300) == []
    findings = feed.run(1200, state=DOWN)
    assert open_findings(findings) == [("switch", "leaf-0", "ib/switch_down", "page")]


@pytest.mark.slow
def test_maintenance_keeps_a_port_silent(node: PortFeed) -> None:
    """A cable that people change."""
    node.event(ONE, "maintenance_started", reason="cable")
    assert node.run(1200, own(ONE, state=DOWN)) == []


@pytest.mark.slow
def test_a_node_that_is_off_leaves_its_switch_ports_in_peace() -> None:
    """Node after node is rebooted for an hour (H15): the switch sees their links down, and
    nobody sees their own ends.
    """
    near, far = a_link("n1")
    feed = PortFeed(IbLink(), (near, far))
    feed.run(300)
    off = {**own(near, **UNREAD), **own(far, state=DOWN)}
    assert [*feed.run(3600, off), *feed.run(600)] == []


@pytest.mark.slow
def test_a_link_that_is_down_when_its_node_is_back_is_told_after_four_minutes() -> None:
    """The hour in which the node was off does not count."""
    near, far = a_link("n1")
    feed = PortFeed(IbLink(), (near, far))
    feed.run(300)
    off = {**own(near, **UNREAD), **own(far, state=DOWN)}
    feed.run(3600, off)
    assert feed.run(230, state=DOWN) == []
    assert open_findings(feed.run(20, state=DOWN)) == [
        ("ib_port", near.id, "ib/link_down", "ticket")
    ]
