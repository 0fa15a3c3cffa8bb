"""Bit errors by the speed of the link: what is silent, what is a ticket, what pages,
and which device is the root.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from detectors.infiniband.ber import BAD, BELIEVED, GOOD, LIMITS, MIN_RATIO, WINDOW_S, IbBer
from detectors.kit.stats import poisson_arl, poisson_k
from pipeline.finding import Finding
from pipeline.frame import Device
from tests.detectors.feed import open_findings
from tests.detectors.port_feed import DOWN, NDR, PortFeed, a_link, a_port

HOUR, DAY = 3600, 86400
HDR, EDR, XDR = 200e9, 100e9, 800e9
PORT = a_port("n1")


def hours(
    feed: PortFeed, n: float, per_hour: float, *, rate: float = NDR, port: Device = PORT
) -> list[Finding]:
    """So many symbol errors an hour, evenly, one frame a minute."""
    findings: list[Finding] = []
    frames = round(n * 60)
    for frame in range(frames):
        errors = int((frame + 1) * per_hour / 60) - int(frame * per_hour / 60)
        findings += feed.once(
            {port.id: {"symbol_errors": errors}}, rate_bits_per_second=rate, symbol_errors=0
        )
    return findings


@pytest.fixture
def feed() -> PortFeed:
    """A port that was quiet for an hour, read once a minute."""
    feed = PortFeed(IbBer(), [PORT], period_s=60.0)
    assert hours(feed, 1, 0) == []
    return feed


@pytest.mark.slow
@pytest.mark.parametrize("rate", [EDR, HDR, NDR, XDR])
@pytest.mark.parametrize(
    ("good", "h"), [(GOOD, LIMITS[0]), (10 * GOOD, LIMITS[1]), (BELIEVED, LIMITS[2])]
)
def test_limits_keep_false_alarms_to_one_in_two_thousand_port_months(
    rate: float, good: float, h: float
) -> None:
    """At the healthy rate that a limit is for, 1.7e7 windows (a month has 8,640) go by between
    alarms: exact Markov chain.
    """
    l0 = rate * good * WINDOW_S
    k = float(poisson_k(np.array([l0]), np.array([max(rate * BAD * WINDOW_S, MIN_RATIO * l0)]))[0])
    assert (
        poisson_arl(l0, k, float(h)) >= 1.7e7 * 0.8
    )  # limits are multiples of a half; the nearest may lie a little below


def test_the_reference_value_is_that_of_the_likelihood_ratio() -> None:
    """NDR: l0 = 400e9 * 1e-16 * 300 = 0.012, l1 = 1.2 errors a window:
    k = 1.188 / ln 100 = 0.258.
    """
    assert poisson_k(np.array([0.012]), np.array([1.2]))[0] == pytest.approx(0.258, abs=0.0005)


@pytest.mark.slow
def test_ndr_at_its_healthy_rate_is_silent(feed: PortFeed) -> None:
    """Regression: 1.5 errors an hour are 1e-15 on NDR, and no fault for a week."""
    assert hours(feed, 7 * 24, 1.5) == []


def test_a_data_rate_that_is_no_number_changes_no_limit(feed: PortFeed) -> None:
    """An hour in which the rate is reported as infinite, then bit errors: as serious as with the
    rate that was known before.
    """
    hours(feed, 1, 0, rate=float("inf"))
    assert open_findings(hours(feed, 0.25, 150)) == [("ib_port", PORT.id, "ib_ber", "page")]


@pytest.mark.slow
def test_hdr_at_twenty_an_hour_alarms(feed: PortFeed) -> None:
    """Regression: 20 errors an hour, which a fixed limit of 120 passes at any
    speed, are 2.6e-14 on HDR.
    """
    findings = hours(feed, 3, 20, rate=HDR)
    assert open_findings(findings) == [("ib_port", PORT.id, "ib_ber", "page")]
    assert "2.8e-14" in findings[-1].evidence[0]  # 7 errors in 12 minutes at 200 Gb/s


def test_a_bad_rate_is_paged_within_a_quarter_of_an_hour(feed: PortFeed) -> None:
    """1e-13 on NDR, 150 errors an hour: ten errors and both windows are soon exceeded."""
    assert open_findings(hours(feed, 0.25, 150)) == [("ib_port", PORT.id, "ib_ber", "page")]


@pytest.mark.slow
def test_one_burst_is_not_a_page(feed: PortFeed) -> None:
    """A thousand errors in one minute and none after it: nobody is woken."""
    findings = [*feed.once(symbol_errors=1000), *hours(feed, 3, 0)]
    assert all(f.severity != "page" for f in findings)


@pytest.mark.slow
def test_it_ends_when_the_errors_end_and_begins_again_when_they_come_back(feed: PortFeed) -> None:
    """Cleared by itself within six hours; a second episode the next day is reported again."""
    hours(feed, 1, 150)
    assert [f.phase for f in hours(feed, 6, 0)] == ["cleared"]
    hours(feed, 20, 0)
    assert next(f.phase for f in hours(feed, 1, 150)) == "onset"


def test_nothing_is_told_in_the_first_minutes() -> None:
    """A port that was just found shows twelve minutes of itself first."""
    assert hours(PortFeed(IbBer(), [PORT], period_s=60.0), 0.2, 150) == []


@pytest.mark.slow
def test_a_counter_that_was_reset_is_no_burst() -> None:
    """Regression: another tool resets a counter that showed 40,000; no
    increment is huge, none negative.
    """
    feed = PortFeed(IbBer(), [PORT], period_s=60.0)
    feed.once(symbol_errors=40_000)
    assert hours(feed, 2, 0) == []
    feed.totals[PORT.id, "symbol_errors"] = 0
    assert hours(feed, 2, 0) == []


@pytest.mark.slow
def test_errors_of_a_link_that_trains_do_not_count(feed: PortFeed) -> None:
    """Down for a minute, thousands of errors while it comes up: that is the flap's business."""
    feed.once(state=DOWN, symbol_errors=2000)
    assert [*feed.once(symbol_errors=3000), *hours(feed, 3, 0)] == []


@pytest.mark.slow
def test_a_counter_at_its_end_is_not_a_rate_of_nothing(feed: PortFeed) -> None:
    """Regression: 65535 is no healthy link, and the bit-error rate stays as it was."""
    hours(feed, 1, 150)
    feed.once(symbol_errors=65_535)
    assert [f.phase for f in hours(feed, 12, 0)] == [], (
        "silence is no repair where nothing is counted"
    )


def test_errors_that_both_counters_show_are_counted_once(feed: PortFeed) -> None:
    """One error a minute: the evidence never has more errors than minutes."""
    feed.once(symbol_errors_extended=0, symbol_errors=0)
    for minute in range(1, 60):
        for findings in feed.once(symbol_errors_extended=1, symbol_errors=1):
            assert int(re.findall(r"(\d+) in 125 minutes", findings.evidence[0])[0]) <= minute
            return
    pytest.fail("one error a minute was not reported")


@pytest.mark.parametrize("symbol_errors", [None, 0])
def test_roce_ports_are_judged_by_their_bad_frames(symbol_errors: int | None) -> None:
    """Regression: an Ethernet port without a symbol counter, or whose counter never moves (mlx5),
    is not skipped.
    """
    port = a_port("n1", link_layer="Ethernet")
    feed = PortFeed(IbBer(), [port], period_s=60.0)
    feed.run(HOUR, net_receive_crc_errors=0, symbol_errors=symbol_errors)
    findings = feed.run(HOUR, net_receive_crc_errors=3, symbol_errors=symbol_errors)
    assert open_findings(findings) == [("ib_port", port.id, "ib_ber", "page")]


@pytest.mark.slow
@pytest.mark.parametrize(("far", "words"), [(0, "counts none"), (3, "too: cable or both")])
def test_the_other_end_tells_receiver_from_cable(far: int, words: str) -> None:
    """Errors at one end are its receiver, errors at both are the cable."""
    ends = a_link("n1")
    feed = PortFeed(IbBer(), ends, period_s=60.0)
    feed.run(HOUR, symbol_errors=0)
    findings = feed.run(HOUR, {ends[0].id: {"symbol_errors": 3}}, symbol_errors=far)
    updates = next(f for f in findings if f.device == ends[0] and f.severity == "page")
    assert words in updates.evidence[-1]


@pytest.mark.slow
def test_a_port_that_always_made_some_errors_is_judged_by_its_past() -> None:
    """1e-15 for a week, then 3e-15: above its past, yet no page; a new port at 1e-13 is one."""
    feed = PortFeed(IbBer(), [PORT], period_s=60.0)
    hours(feed, 5 * 24, 1.5)
    assert all(f.severity != "page" for f in hours(feed, 24, 4))


@pytest.mark.slow
def test_gaps_of_the_collector_hold_everything(feed: PortFeed) -> None:
    """A quarter of an hour without frames, then the errors of that time at once: no burst."""
    hours(feed, 2, 0)
    feed.clock.advance(900)
    assert feed.once(symbol_errors=300) == []
    assert hours(feed, 2, 0) == []


@pytest.mark.parametrize(
    ("watched", "sender"),
    [(2, "from port n1 of leaf-0 (good"), (1, "from leaf switch leaf-0 (good")],
)
def test_both_ends_are_named(watched: int, sender: str) -> None:
    """Who receives badly, and who sends: the port where its counters are read, else the switch that
    the topology names.
    """
    ends = a_link("n1")[:watched]
    feed = PortFeed(IbBer(), ends, period_s=60.0)
    feed.run(HOUR, symbol_errors=0)
    findings = feed.run(HOUR, {ends[0].id: {"symbol_errors": 3}}, symbol_errors=0)
    (summary,) = {f.summary.partition("receives bit errors")[0] for f in findings}
    assert summary == "mlx5_0/1 of n1 "
    assert all(sender in f.summary for f in findings)
