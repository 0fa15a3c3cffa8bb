"""Links whose error correction works harder from day to day: what is
growth, and what is only much.
"""

from __future__ import annotations

import numpy as np
import pytest

from detectors.fec_tail import FecTail
from pipeline.finding import Finding
from pipeline.frame import Device
from tests.detectors.feed import Feed, open_findings
from tests.detectors.port_feed import PortFeed, a_port

HOUR, DAY = 3600.0, 24
FAULT, BIN = "nvlink/fec_tail", "nvlink_fec_9_codewords"


@pytest.fixture
def node() -> Feed:
    """Eight GPUs, read every ten minutes."""
    return Feed(FecTail(), period_s=600)


def hours(
    node: Feed, count: int, per_hour: float, *, grows: float = 0.0, counter: str = BIN
) -> list[Finding]:
    """So many hours; codewords of GPU 0 grow by ``grows`` orders of magnitude a day from
    ``per_hour`` on, those of the others stay there.
    """
    findings: list[Finding] = []
    for hour in range(count):
        mine = per_hour * 10 ** (grows * hour / DAY)
        findings += node.run(
            HOUR, power_milliwatts=700_000, **{counter: [mine / HOUR] + [per_hour / HOUR] * 7}
        )
    return findings


def test_two_orders_of_magnitude_a_day_are_a_ticket_within_the_day(node: Feed) -> None:
    """Of the GPU whose links it is, with the pace in words."""
    findings = hours(node, DAY, 600, grows=2)
    assert open_findings(findings) == [("gpu", "GPU-n1-0", FAULT, "ticket")]
    assert "100 times as hard each day" in findings[-1].summary
    assert findings[-1].value == pytest.approx(2, abs=0.1)


@pytest.mark.slow
def test_half_an_order_of_magnitude_a_day_is_silent(node: Feed) -> None:
    """Three days of it: temperature does as much."""
    assert hours(node, 3 * DAY, 600, grows=0.5) == []


@pytest.mark.slow
def test_much_that_does_not_grow_is_silent(node: Feed) -> None:
    """A link may always have worked hard."""
    assert hours(node, 3 * DAY, 10**6) == []


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.0, 0.3])
@pytest.mark.parametrize("times", [10, 10_000])
def test_a_step_is_no_trend(spread: float, times: int) -> None:
    """A cable was moved: so much more from one hour to the next, and then the same, as far as
    chance and the weather let it.
    """
    node, rng = Feed(FecTail(), period_s=1800), np.random.default_rng(1)
    means = [600.0] * 2 * DAY + [600.0 * times] * 2 * DAY
    assert [
        findings
        for mean in means
        for findings in hours(node, 1, rng.poisson(mean * rng.lognormal(sigma=spread)))
    ] == []


@pytest.mark.slow
@pytest.mark.parametrize("begins", range(DAY))
@pytest.mark.parametrize("orders", [0.5, 1.0])
def test_a_swing_that_comes_every_day_is_no_trend(begins: int, orders: float) -> None:
    """A hall that warms up by day: so much more each afternoon than each morning, whenever
    the agent began to look.
    """
    node = Feed(FecTail(), gpus=1, period_s=1800)
    swing = [
        600 * 10 ** (orders * np.sin(2 * np.pi * hour / DAY))
        for hour in range(begins, begins + 3 * DAY)
    ]
    assert [findings for count in swing for findings in node.run(HOUR, **{BIN: count / HOUR})] == []


@pytest.mark.slow
def test_growth_that_a_retraining_broke_into_stays_one_ticket(node: Feed) -> None:
    """One hour of a thousand times as much, while the link gets worse from day
    to day: it is reported once.
    """
    findings = hours(node, 2 * DAY, 60, grows=1.5)
    findings += hours(node, 1, 10**8)
    findings += hours(node, 2 * DAY, 60 * 10**3, grows=1.5)
    assert [(f.device.id, f.phase) for f in findings] == [("GPU-n1-0", "onset")]


@pytest.mark.slow
def test_a_ticket_stays_while_nobody_knows_the_pace(node: Feed) -> None:
    """From the second day on the agent is off for nine hours of each: what grew on
    says no slope, and no end.
    """
    findings = hours(node, 30, 600, grows=1.5)
    for day in range(1, 4):
        findings += hours(node, 15, 600 * 10 ** (1.5 * day), grows=1.5)
        node.run(9 * HOUR, **{BIN: None})
    assert [f.phase for f in findings] == ["onset"]


@pytest.mark.slow
def test_a_swapped_gpu_takes_its_finding_with_it(node: Feed) -> None:
    """The link is another one, and there is no finding about the old one any more."""
    hours(node, DAY, 600, grows=2)
    node.gpus[0] = Device("n1", "gpu", "GPU-new", node.gpus[0].attributes)
    assert [(f.device.id, f.phase) for f in hours(node, DAY, 600)] == [("GPU-n1-0", "cleared")]


def test_a_handful_grows_fast_and_says_nothing(node: Feed) -> None:
    """From one codeword an hour to ten."""
    assert hours(node, DAY, 1, grows=1) == []


def test_codewords_that_were_corrected_with_ease_are_not_asked(node: Feed) -> None:
    """Only bins near what the correction can do count; the lower ones are noise of PAM4."""
    assert hours(node, DAY, 600, grows=2, counter="nvlink_fec_3_codewords") == []


@pytest.mark.slow
def test_growth_over_a_gap_is_not_made_up(node: Feed) -> None:
    """Two days of nothing between little and much: nobody saw how it grew."""
    hours(node, DAY, 600)
    node.run(2 * DAY * HOUR, **{BIN: None})
    assert hours(node, 5, 10**5) == []


@pytest.mark.slow
def test_it_ends_a_day_after_it_stopped_growing(node: Feed) -> None:
    """The link was changed."""
    hours(node, DAY, 600, grows=2)
    assert [f.phase for f in hours(node, 2 * DAY + 1, 600) if f.phase == "cleared"] == ["cleared"]


def test_an_infiniband_port_is_judged_by_its_corrected_blocks() -> None:
    """The same rule for the blocks that the port's error correction saved."""
    port = a_port("n1")
    feed = PortFeed(FecTail(), [port], period_s=600)
    findings = [
        f
        for hour in range(DAY)
        for f in feed.run(HOUR, fec_corrected_blocks=int(200 * 10 ** (2 * hour / DAY)))
    ]
    assert open_findings(findings) == [("ib_port", port.id, "ib/fec_tail", "ticket")]
