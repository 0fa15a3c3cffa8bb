"""Ports that are down, gone or slow; sick adapters; other error counters; congestion; a slow rail."""

from __future__ import annotations

import pytest

from detectors.infiniband import IbAdapter, IbCongestion, IbErrors, IbLink, IbRail
from detectors.infiniband.errors import RULES, Rule
from pipeline.catalog.ib_counters import COUNTERS
from pipeline.frame import Device
from tests.detectors.feed import stands
from tests.detectors.port_feed import ABSENT, DOWN, NDR, PortFeed, a_link, a_port

RAILS = [a_port("n1", rail) for rail in range(8)]
ONE = RAILS[3]
MINUTE = 60
INIT, POLLING, DISABLED = 2, 2, 3  # a port state, and two physical states
WORDS: dict[str, float] = {
    "transmit_words": 10 * 12_500_000_000 // 8,
    "receive_words": 10 * 12_500_000_000 // 8,
}  # a quarter of NDR


UNREAD: dict[str, float | None] = dict.fromkeys(("state", "rate_bits_per_second", "width_lanes", "expected"))


@pytest.fixture
def node() -> PortFeed:
    """Eight rails that have been up for five minutes."""
    feed = PortFeed(IbLink(), RAILS)
    assert feed.run(300) == []
    return feed


def own(port: Device, **values: float | None) -> dict[str, dict[str, float | None]]:
    """Values of one port."""
    return {port.id: values}


def test_a_port_that_stays_down_is_a_ticket_after_four_minutes_and_a_page_after_ten(node: PortFeed) -> None:
    """Not before: a link that trains anew comes back, and so does a neighbour that reboots; it clears a minute after it does."""
    assert node.run(230, own(ONE, state=DOWN)) == []
    assert stands(node.run(20, own(ONE, state=DOWN))) == [("ib_port", ONE.id, "ib/link_down", "ticket")]
    assert node.run(340, own(ONE, state=DOWN)) == []
    assert stands(node.run(20, own(ONE, state=DOWN))) == [("ib_port", ONE.id, "ib/link_down", "page")]
    assert [f.phase for f in node.run(90)] == ["cleared"]


def test_a_port_that_was_never_up_is_silent() -> None:
    """Regression: a management adapter set to InfiniBand is no permanent alarm."""
    feed = PortFeed(IbLink(), [a_port("n1", 8)])
    assert feed.run(3600, state=DOWN, expected=0) == []


def test_a_port_that_somebody_disabled_is_recorded_and_wakes_nobody(node: PortFeed) -> None:
    """Also where it was paged as down before: that ends. Enabled again and still without a link, it is a fault from then on."""
    off = own(ONE, state=DOWN, physical_state=DISABLED)
    assert stands(node.run(3600, off)) == [("ib_port", ONE.id, "ib/port_disabled", "record")]
    assert node.run(230, own(ONE, state=DOWN, physical_state=POLLING))[0].phase == "cleared"
    down = node.run(430, own(ONE, state=DOWN, physical_state=POLLING))
    assert stands(down) == [("ib_port", ONE.id, "ib/link_down", "page")]
    assert stands([*down, *node.run(3600, off)]) == [("ib_port", ONE.id, "ib/port_disabled", "record")]


def test_an_ethernet_port_without_a_carrier_is_down_though_its_driver_calls_it_disabled() -> None:
    """mlx5 and bnxt call every RoCE port without a carrier disabled: a pulled cable must not hide behind that."""
    port = a_port("n1", 3, link_layer="Ethernet")
    feed = PortFeed(IbLink(), [port])
    feed.run(300)
    assert stands(feed.run(660, state=DOWN, physical_state=DISABLED)) == [("ib_port", port.id, "ib/link_down", "page")]


def test_a_port_that_is_no_longer_expected_is_silent_and_what_stood_of_it_ends(node: PortFeed) -> None:
    """What is declared decides, not that it was active once."""
    assert stands(node.run(660, own(ONE, state=DOWN)))
    assert [f.phase for f in node.run(3600, own(ONE, state=DOWN, expected=0))] == ["cleared"]


def test_what_a_port_was_down_before_the_boot_does_not_count(node: PortFeed) -> None:
    """Down for 200 s while the node shut down and not active for 50 s after the boot are not four minutes down."""
    node.run(200, state=DOWN)
    node.boot = "boot-2"
    node.clock.advance(300)
    assert [*node.run(50, state=INIT), *node.run(300)] == []


def test_an_adapter_that_is_gone_is_told_within_a_minute(node: PortFeed) -> None:
    """Absent is what the source says of a port that it knows and does not find; one reading of the minute may be lost."""
    node.run(10, own(ONE, state=DOWN))  # as adapters are that die, before they vanish
    gone = node.run(20, own(ONE, state=ABSENT, rate_bits_per_second=None, width_lanes=None))
    gone += node.run(10, own(ONE, **UNREAD))
    gone += node.run(20, own(ONE, state=ABSENT, rate_bits_per_second=None, width_lanes=None))
    assert stands(gone) == [("ib_port", ONE.id, "ib/adapter_gone", "page")]


def test_adapters_that_all_go_while_their_driver_is_loaded_anew_are_silent(node: PortFeed) -> None:
    """All absent for two minutes, then back one after the other: nobody is told, however often."""
    gone = {"state": ABSENT, "rate_bits_per_second": None, "width_lanes": None}
    for _ in range(3):
        assert node.run(120, {port.id: gone for port in RAILS}) == []
        for back in range(8):
            assert node.run(20, {port.id: gone for port in RAILS[back:]}) == []
        assert node.run(120) == []


def test_an_adapter_that_its_driver_did_not_bring_back_is_told_after_ten_minutes(node: PortFeed) -> None:
    """The others are back within a minute: this one is not being updated any more."""
    node.run(MINUTE, state=ABSENT)
    assert node.run(500, own(ONE, state=ABSENT)) == []
    assert stands(node.run(MINUTE, own(ONE, state=ABSENT))) == [("ib_port", ONE.id, "ib/adapter_gone", "page")]


def test_one_adapter_that_is_reset_is_silent(node: PortFeed) -> None:
    """Absent for half a minute."""
    assert [*node.run(30, own(ONE, state=ABSENT)), *node.run(300)] == []


def test_what_stood_of_an_adapter_leaves_with_it() -> None:
    """Another adapter in its slot: nobody waits for the old one to come back."""
    old = a_port("n1", 3, pci_bus_id="0000:5e:00.0")
    feed = PortFeed(IbLink(), [*RAILS[:3], old])
    feed.run(300)
    assert stands(feed.run(MINUTE, own(old, state=ABSENT))) == [("ib_port", old.id, "ib/adapter_gone", "page")]
    feed.ports = (*RAILS[:3], Device("n1", "ib_port", "0xnew", old.attributes))
    assert [f.phase for f in feed.run(3600)] == ["cleared"]


def test_half_the_lanes_are_a_page(node: PortFeed) -> None:
    """4x to 2x, with the rate that it had before in the evidence."""
    said = node.run(MINUTE, own(ONE, width_lanes=2, rate_bits_per_second=NDR / 2))
    assert stands(said) == [("ib_port", ONE.id, "ib/slow_link", "page")]
    assert "400 Gb/s before" in said[0].evidence[1]


def test_a_port_that_was_always_slower_than_its_role_is_a_ticket_and_without_a_role_a_record() -> None:
    """A rail is meant to be as fast as the others; a port of no rail may be meant slow."""
    slow = a_port("n1", 7)
    feed = PortFeed(IbLink(), [*RAILS[:7], slow])
    assert [f.severity for f in feed.run(300, own(slow, rate_bits_per_second=NDR / 2))] == ["ticket"]
    plain = [Device("n1", "ib_port", p.id, {k: v for k, v in p.attributes.items() if k != "rail"}) for p in RAILS]
    feed = PortFeed(IbLink(), plain)
    assert [f.severity for f in feed.run(300, own(slow, rate_bits_per_second=NDR / 2))] == ["record"]


def test_ports_that_are_all_set_to_a_lower_speed_become_normal(node: PortFeed) -> None:
    """When most ports of a role have changed, that is how fast the role is: nobody is told of each of them."""
    assert all(f.severity != "page" for f in node.run(600, rate_bits_per_second=NDR / 2))


@pytest.mark.parametrize(("ports", "left"), [(RAILS[2:4], []), (RAILS, [("ib_port", ONE.id, "ib/slow_link", "ticket")])])
def test_a_lower_speed_is_a_page_for_a_week_at_most(ports: list[Device], left: list[tuple[str, str, str, str]]) -> None:
    """A port that was moved to a slower switch: that is its new normal, and a ticket where the other rails are faster still."""
    feed = PortFeed(IbLink(), ports, period_s=3600)
    feed.run(36000)
    said = feed.run(6 * 86400, own(ONE, rate_bits_per_second=NDR / 2))
    assert stands(said) == [("ib_port", ONE.id, "ib/slow_link", "page")]
    said += feed.run(20 * 86400, own(ONE, rate_bits_per_second=NDR / 2))
    assert stands(said) == left
    assert [f.phase for f in said].count("cleared") == 1


@pytest.mark.parametrize("mark", [float("inf"), 140737488355328.0])
def test_a_rate_that_is_a_mark_of_no_value_is_not_what_the_port_should_have(mark: float) -> None:
    """A port of no known model is held to its own best: learnt as that, the mark would make it slow for ever."""
    feed = PortFeed(IbLink(), [Device("n1", "ib_port", ONE.id, {"device": "mlx5_3", "port": "1"})])
    assert feed.run(300, rate_bits_per_second=mark, width_lanes=mark) == []
    assert feed.run(600) == []


def test_what_is_not_read_changes_nothing(node: PortFeed) -> None:
    """NaN for an hour is neither down nor up."""
    assert node.run(3600, own(ONE, **UNREAD)) == []


def test_both_ends_of_a_link_that_is_down_are_one_finding() -> None:
    """The node's end speaks for the link."""
    ends = a_link("n1")
    feed = PortFeed(IbLink(), ends)
    feed.run(300)
    assert stands(feed.run(660, state=DOWN)) == [("ib_port", ends[0].id, "ib/link_down", "page")]


def test_a_leaf_switch_that_reboots_is_silent_and_one_that_stays_away_is_the_switch() -> None:
    """Twelve ports of a leaf down together: ten minutes are a reboot, twenty are a dead switch, told once and of the switch."""
    ports = [end for n in range(12) for end in a_link(f"n{n}")]
    feed = PortFeed(IbLink(), ports)
    feed.run(300)
    assert feed.run(600, state=DOWN) == []
    assert feed.run(300) == []
    said = feed.run(1200, state=DOWN)
    assert stands(said) == [("switch", "leaf-0", "ib/switch_down", "page")]


def test_maintenance_keeps_a_port_silent(node: PortFeed) -> None:
    """A cable that people change."""
    node.event(ONE, "maintenance_started", reason="cable")
    assert node.run(1200, own(ONE, state=DOWN)) == []


def test_a_compromised_adapter_is_a_page_and_an_old_line_is_not() -> None:
    """What the driver said yesterday, or before the boot, is history when an agent starts."""
    feed = PortFeed(IbAdapter(), RAILS)
    feed.once()
    assert feed.event(ONE, "hca_health", ago_s=86400, reason="health", before_start=True, text="health compromised") == []
    assert feed.event(ONE, "hca_health", ago_s=60, reason="health", previous_boot=True, text="health compromised") == []
    said = feed.event(ONE, "hca_health", reason="health", interface="mlx5_3", text="health compromised")
    assert stands(said) == [("ib_port", ONE.id, "ib/adapter_health", "page")]
    feed.period_s = 60
    assert [f.phase for f in feed.run(3 * 3600)] == ["cleared"]


def test_a_dead_adapter_is_not_well_because_it_says_nothing_more() -> None:
    """The driver speaks once; while the port is not active no silence counts. A reading that is lost now and then says nothing."""
    feed = PortFeed(IbAdapter(), RAILS, period_s=60)
    feed.event(ONE, "hca_health", reason="health", text="health compromised")
    assert feed.run(6 * 3600, own(ONE, state=DOWN)) == []
    lost = own(ONE, state=None)
    assert [f.phase for n in range(180) for f in feed.once(lost if n % 20 == 0 else None)] == ["cleared"]


def test_an_adapter_that_its_driver_takes_on_anew_is_well_and_the_others_are_not() -> None:
    """After a firmware reset or a reload, one adapter at a time."""
    feed = PortFeed(IbAdapter(), RAILS)
    for port in (RAILS[0], ONE):
        feed.event(port, "hca_health", reason="health", text="health compromised")
    assert [f.device for f in feed.event(ONE, "module_loaded", module="mlx5_core", version="28.39.1002")] == [ONE]
    assert feed.event(RAILS[0], "module_loaded", module="nvidia", version="580.95.05") == []
    assert feed.event(Device("n1", "node", "n1"), "module_loaded", module="mlx5_core", version="28.39.1002") == []


def test_a_reboot_ends_what_a_driver_said_of_its_adapters() -> None:
    """The firmware begins anew."""
    feed = PortFeed(IbAdapter(), RAILS)
    feed.event(ONE, "hca_health", reason="health", text="health compromised")
    feed.boot = "boot-2"
    assert [(f.device, f.phase) for f in feed.once()] == [(ONE, "cleared")]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.counter)
def test_every_error_counter_has_its_judgement(rule: Rule) -> None:
    """So much in as many windows as it takes is told with the counter's name, within what its register can hold."""
    feed = PortFeed(IbErrors(), [ONE], period_s=60.0)
    quiet: dict[str, float] = {rule.counter: 0, "receive_packets": 10**6}
    assert feed.run(3600, {ONE.id: quiet}) == []
    said = []
    for _ in range(rule.windows):
        said += feed.run(60, {ONE.id: {**quiet, rule.counter: rule.least}})
        said += feed.run(240, {ONE.id: quiet})
    said += feed.run(60, {ONE.id: quiet})
    assert [(f.fault, f.severity) for f in said if f.phase == "onset"] == [("ib/errors", rule.severity)]
    assert rule.counter in said[0].evidence[0]


def test_windows_without_a_reading_neither_heal_nor_add_to_errors() -> None:
    """Half an hour in which the counters cannot be read: what was found still stands."""
    feed = PortFeed(IbErrors(), [ONE], period_s=60.0)
    quiet: dict[str, float] = {"local_link_integrity_errors": 0, "receive_packets": 10**6}
    feed.run(600, {ONE.id: quiet})
    assert stands(feed.run(300, {ONE.id: {**quiet, "local_link_integrity_errors": 1}}))
    assert feed.run(3600, {ONE.id: dict.fromkeys(quiet, None)}) == []
    assert [f.phase for f in feed.run(3600, {ONE.id: quiet})] == ["cleared"]


def test_every_counter_of_the_classical_table_is_judged_somewhere() -> None:
    """PortCounters of the InfiniBand specification: none is read and then forgotten."""
    elsewhere = {
        "symbol_errors": "ber",
        "link_downed": "flap",
        "transmit_wait_ticks": "congestion",
        "receive_words": "rail",
        "transmit_words": "rail",
        "receive_packets": "errors, as what errors are a share of",
    }
    classical = {f.name for f in COUNTERS if "sysfs counters/" in f.read} - {"transmit_packets"}
    casts = {name for name in classical if "unicast" in name or "multicast" in name}
    assert classical - casts - set(elsewhere) <= {rule.counter for rule in RULES}


def test_four_bit_counters_count_only_under_load() -> None:
    """A port that carries nothing is being plugged in."""
    feed = PortFeed(IbErrors(), [ONE], period_s=60.0)
    feed.run(600, local_link_integrity_errors=0, receive_packets=0)
    assert feed.run(600, local_link_integrity_errors=1, receive_packets=0) == []


def test_a_rail_at_half_its_traffic_is_a_ticket_within_seven_minutes() -> None:
    """Half of what the other rails carry, in a job that uses all of them; silent while the whole node pauses."""
    feed = PortFeed(IbRail(), RAILS)
    assert feed.run(1800, dict.fromkeys([p.id for p in RAILS], WORDS)) == []
    assert feed.run(300, transmit_words=0, receive_words=0) == []
    half = {name: value // 2 for name, value in WORDS.items()}
    said = feed.run(420, {**dict.fromkeys([p.id for p in RAILS], WORDS), ONE.id: half})
    assert stands(said) == [("ib_port", ONE.id, "straggler", "ticket")]
    assert said[0].value == pytest.approx(-50, abs=0.5)


def test_a_rail_that_always_carries_less_is_normal() -> None:
    """Its own past counts: a rail of another kind of traffic is not slow."""
    half = {name: value // 2 for name, value in WORDS.items()}
    feed = PortFeed(IbRail(), RAILS)
    assert feed.run(7200, {**dict.fromkeys([p.id for p in RAILS], WORDS), ONE.id: half}) == []


def test_a_rail_that_was_down_is_not_slow() -> None:
    """Down for twenty of every sixty seconds for ten minutes (H13): what it carries meanwhile is no measure of its speed."""
    feed, rails = PortFeed(IbRail(), RAILS), dict.fromkeys([p.id for p in RAILS], WORDS)
    feed.run(1800, rails)
    said = []
    for _ in range(10):
        said += feed.run(20, {**rails, ONE.id: {"state": DOWN, "transmit_words": 0, "receive_words": 0}})
        said += feed.run(40, rails)
    assert said == []


def test_ports_of_a_switch_alone_are_no_rails() -> None:
    """A view that holds no node's port has nobody to compare, and says nothing."""
    feed = PortFeed(IbRail(), [a_link(f"n{n}")[1] for n in range(8)])
    assert feed.run(1200, transmit_words=WORDS["transmit_words"], receive_words=WORDS["receive_words"]) == []


def test_congestion_is_recorded_of_the_switch_and_never_of_a_port() -> None:
    """Twelve ports of a leaf wait a hundred times as long as usual at the same traffic."""
    ports = [a_port(f"n{n}", 0, leaf="leaf-0") for n in range(12)]
    feed = PortFeed(IbCongestion(), ports)
    assert feed.run(3600, transmit_wait_ticks=100, transmit_words=WORDS["transmit_words"]) == []
    said = feed.run(600, transmit_wait_ticks=10_000, transmit_words=WORDS["transmit_words"])
    assert stands(said) == [("switch", "leaf-0", "congestion", "record")]
    assert [f.phase for f in feed.run(600, transmit_wait_ticks=100, transmit_words=WORDS["transmit_words"])] == ["cleared"]


def test_waiting_without_traffic_is_no_congestion() -> None:
    """An idle fabric may wait as it likes."""
    feed = PortFeed(IbCongestion(), RAILS)
    assert feed.run(3600, transmit_wait_ticks=0, transmit_words=0) == []
    assert feed.run(600, transmit_wait_ticks=10_000, transmit_words=0) == []


def test_a_node_that_is_off_leaves_its_switch_ports_in_peace() -> None:
    """Node after node is rebooted for an hour (H15): the switch sees their links down, and nobody sees their own ends."""
    near, far = a_link("n1")
    feed = PortFeed(IbLink(), (near, far))
    feed.run(300)
    off = {**own(near, **UNREAD), **own(far, state=DOWN)}
    assert [*feed.run(3600, off), *feed.run(600)] == []


def test_a_link_that_is_down_when_its_node_is_back_is_told_after_four_minutes() -> None:
    """The hour in which the node was off does not count."""
    near, far = a_link("n1")
    feed = PortFeed(IbLink(), (near, far))
    feed.run(300)
    off = {**own(near, **UNREAD), **own(far, state=DOWN)}
    feed.run(3600, off)
    assert feed.run(230, state=DOWN) == []
    assert stands(feed.run(20, state=DOWN)) == [("ib_port", near.id, "ib/link_down", "ticket")]


def test_what_comes_back_within_the_rest_and_stays_is_told_after_it() -> None:
    """An adapter of which the driver spoke once more, soon after two quiet hours."""
    feed = PortFeed(IbAdapter(), RAILS, period_s=60)
    feed.event(ONE, "hca_health", reason="health", text="health compromised")
    assert [f.phase for f in feed.run(127 * 60)] == ["cleared"]
    assert feed.event(ONE, "hca_health", reason="health", text="health compromised") == []
    assert stands(feed.run(3600)) == [("ib_port", ONE.id, "ib/adapter_health", "page")]
