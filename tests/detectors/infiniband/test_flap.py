"""Links that come and go: what counts as an event, what never does, and when it is over."""

from __future__ import annotations

import pytest

from detectors.infiniband.flap import IbFlap
from pipeline.finding import Finding
from pipeline.frame import Device
from tests.detectors.feed import open_findings
from tests.detectors.port_feed import ABSENT, DOWN, PortFeed, a_link, a_port

HOUR, DAY = 3600, 86400
PORT = a_port("n1")
ENDS = a_link("n1")
PAGE = [("ib_port", PORT.id, "ib_flap", "page")]


def feed_of(*ports: Device) -> PortFeed:
    """Ports that have been up for ten minutes."""
    feed = PortFeed(IbFlap(), ports)
    assert feed.run(600, link_downed=0) == []
    return feed


def flap(
    feed: PortFeed, *ports: Device, down_s: float = 30, counts: tuple[Device, ...] | None = None
) -> list[Finding]:
    """These ports go down and come back; ``counts``: those whose link_downed
    rises (all, if left out).
    """
    counts = ports if counts is None else counts
    down = {p.id: {"state": DOWN, "link_downed": 1 if p in counts else 0} for p in ports}
    findings = feed.once(down, link_downed=0)
    findings += feed.run(
        down_s - 10, {p.id: {"state": DOWN, "link_downed": 0} for p in ports}, link_downed=0
    )
    return findings + feed.run(180, link_downed=0)


@pytest.mark.slow
def test_the_third_event_in_six_hours_is_a_page_and_the_first_two_are_silent() -> None:
    """Two hours apart; reported at once, with the times in the evidence."""
    feed = feed_of(PORT)
    for _ in range(2):
        assert flap(feed, PORT) == []
        assert feed.run(2 * HOUR, link_downed=0) == []
    findings = flap(feed, PORT)
    assert open_findings(findings) == PAGE
    assert "3 times down within 6 hours" in findings[0].evidence[0]


@pytest.mark.slow
def test_events_days_apart_are_no_flap() -> None:
    """Regression: a flap on day 0 and one on day 3, twice over, are not three in six hours."""
    feed = feed_of(PORT)
    findings: list[Finding] = []
    for _ in range(3):
        findings += flap(feed, PORT)
        feed.period_s = 600
        findings += feed.run(3 * DAY, link_downed=0)
        feed.period_s = 10
    assert findings == []


@pytest.mark.slow
def test_counts_of_an_old_life_are_silent() -> None:
    """Regression: a port that shows link_downed 200 when it is first seen has done nothing yet."""
    feed = PortFeed(IbFlap(), [PORT])
    feed.once(link_downed=200)
    assert feed.run(HOUR, link_downed=0) == []


def test_a_flap_that_no_counter_saw_counts_by_its_state() -> None:
    """Down for 25 s and more and active again is an event without
    link_downed; a shorter one is none.
    """
    feed = feed_of(PORT)
    for _ in range(3):
        findings = flap(feed, PORT, down_s=40, counts=())
    assert open_findings(findings) == PAGE
    feed = feed_of(PORT)
    assert [f for _ in range(6) for f in flap(feed, PORT, down_s=20, counts=())] == []


def roce_flap(feed: PortFeed, *, down_s: int) -> list[Finding]:
    """The carrier goes and comes back; link_downed of a RoCE port of mlx5 stays 0."""
    own = {"link_downed": 0, "net_carrier_changes": 0}
    findings = feed.once(None, **own | {"net_carrier_changes": 1, "state": DOWN if down_s else 4})
    for _ in range(down_s - 1):
        findings += feed.once(None, **own, state=DOWN)
    return findings + feed.once(None, **own | {"net_carrier_changes": 1})


@pytest.mark.parametrize(("down_s", "left"), [(5, PAGE), (0, [])])
def test_the_carrier_of_a_roce_port_counts_with_its_state(
    down_s: int, left: list[tuple[str, str, str, str]]
) -> None:
    """Down for five seconds, three times, is a page; a carrier that is off for a moment, as when
    the MTU is set, is none.
    """
    port = a_port("n1", link_layer="Ethernet")
    feed = PortFeed(IbFlap(), [port], period_s=1)
    feed.run(20, link_downed=0, net_carrier_changes=0)
    findings: list[Finding] = []
    for _ in range(3):
        findings += roce_flap(feed, down_s=down_s)
        feed.period_s = 10
        findings += feed.run(120, link_downed=0, net_carrier_changes=0)
        feed.period_s = 1
    assert open_findings(findings) == left


def test_both_ends_make_one_finding_of_the_nodes_end() -> None:
    """The link, not two nodes: the switch's end says nothing of its own."""
    feed = feed_of(*ENDS)
    findings = [f for _ in range(3) for f in flap(feed, *ENDS)]
    assert open_findings(findings) == [("ib_port", ENDS[0].id, "ib_flap", "page")]
    assert "lost it too" in findings[-1].evidence[1]


def test_one_end_alone_does_not_make_a_flap() -> None:
    """Regression: link_downed rises on one side only, because the other side was restarted."""
    feed = feed_of(*ENDS)
    findings: list[Finding] = []
    for _ in range(5):
        findings += feed.once({ENDS[0].id: {"link_downed": 1}}, link_downed=0)
        findings += feed.run(300, link_downed=0)
    assert findings == []


@pytest.mark.slow
def test_reboots_of_the_node_do_not_count() -> None:
    """Before and after its boot a node's links go down: three reboots in an hour are no flap."""
    feed = feed_of(PORT)
    feed.booted("n1")
    findings: list[Finding] = []
    for _ in range(3):
        findings += flap(feed, PORT, down_s=120)
        findings += feed.booted("n1")
        findings += flap(feed, PORT)
        feed.run(1200, link_downed=0)
    assert findings == []


def test_a_switch_that_reboots_takes_its_ports_down_and_none_of_them_flaps() -> None:
    """Regression: sixty-four links down and up together, three times in an afternoon,
    say nothing of any link.
    """
    ports = [end for n in range(12) for end in a_link(f"n{n}")]
    feed = feed_of(*ports)
    findings = [f for _ in range(3) for f in flap(feed, *ports, down_s=120)]
    assert findings == []


def test_a_driver_that_is_loaded_again_is_no_flap() -> None:
    """Three times the adapter is away for 40 s, and then its link trains for 10 s."""
    feed = feed_of(PORT)
    findings: list[Finding] = []
    for _ in range(3):
        findings += feed.run(40, state=ABSENT)
        findings += feed.run(10, state=DOWN, link_downed=0)
        findings += feed.run(200, link_downed=0)
    assert findings == []


def test_maintenance_is_silent() -> None:
    """Operators who pull cables have set it."""
    feed = feed_of(PORT)
    node = Device("n1", "node", "n1")
    feed.event(node, "maintenance_started", reason="new cables")
    assert [f for _ in range(4) for f in flap(feed, PORT)] == []
    feed.event(node, "maintenance_ended")
    assert open_findings([f for _ in range(3) for f in flap(feed, PORT)]) == PAGE


@pytest.mark.slow
def test_it_clears_after_six_clean_hours_and_a_second_episode_alarms() -> None:
    """Regressions: no manual command is needed to clear, and protection is not
    lost after the first repair.
    """
    feed = feed_of(PORT)
    for _ in range(3):
        flap(feed, PORT)
    feed.period_s = 60
    assert [f.phase for f in feed.run(7 * HOUR, link_downed=0)] == ["cleared"]
    feed.period_s = 10
    assert [f for _ in range(2) for f in flap(feed, PORT)] == []
    assert open_findings(flap(feed, PORT)) == PAGE


@pytest.mark.slow
def test_five_events_in_a_week_are_a_ticket() -> None:
    """One a day is below the fast limit."""
    feed, findings = feed_of(PORT), []
    for _ in range(5):
        findings += flap(feed, PORT)
        feed.period_s = 60
        feed.run(20 * HOUR, link_downed=0)
        feed.period_s = 10
    assert open_findings(findings) == [("ib_port", PORT.id, "ib_flap", "ticket")]


@pytest.mark.parametrize("saturated", [False, True])
def test_a_full_counter_leaves_the_state(saturated: bool) -> None:
    """link_downed at 255 counts no more; the state still does."""
    feed = feed_of(PORT)
    if saturated:
        feed.totals[PORT.id, "link_downed"] = 255
        feed.run(600, link_downed=0)
    assert open_findings([f for _ in range(3) for f in flap(feed, PORT, down_s=60)]) == PAGE


@pytest.mark.slow
def test_a_link_that_flaps_again_is_reported_at_once() -> None:
    """Three more events right after the clear."""
    feed = feed_of(PORT)
    for _ in range(3):
        flap(feed, PORT)
    feed.period_s = 60
    while not (findings := feed.once(link_downed=0)):
        pass
    assert [f.phase for f in findings] == ["cleared"]
    feed.period_s = 10
    assert open_findings([f for _ in range(3) for f in flap(feed, PORT)]) == PAGE
