"""Links whose error correction works harder from day to day: what is growth, and what is only much."""

from __future__ import annotations

import numpy as np
import pytest

from detectors.fec_tail import FecTail
from pipeline.finding import Finding
from tests.detectors.feed import Feed, stands
from tests.detectors.port_feed import PortFeed, a_port

HOUR, DAY = 3600.0, 24
FAULT, BIN = "nvlink/fec_tail", "nvlink_fec_9_codewords"


@pytest.fixture
def node() -> Feed:
    """Eight GPUs, read every ten minutes."""
    return Feed(FecTail(), period_s=600)


def hours(node: Feed, count: int, per_hour: float, *, grows: float = 0.0, counter: str = BIN) -> list[Finding]:
    """So many hours; codewords of GPU 0 grow by ``grows`` orders of magnitude a day from ``per_hour`` on, those of the others stay there."""
    said: list[Finding] = []
    for hour in range(count):
        mine = per_hour * 10 ** (grows * hour / DAY)
        said += node.run(HOUR, **{counter: [mine / HOUR] + [per_hour / HOUR] * 7})
    return said


def test_two_orders_of_magnitude_a_day_are_a_ticket_within_the_day(node: Feed) -> None:
    """Of the GPU whose links it is, with the pace in words."""
    said = hours(node, DAY, 600, grows=2)
    assert stands(said) == [("gpu", "GPU-n1-0", FAULT, "ticket")]
    assert "100 times as hard each day" in said[-1].summary
    assert said[-1].value == pytest.approx(2, abs=0.1)


def test_half_an_order_of_magnitude_a_day_is_silent(node: Feed) -> None:
    """Three days of it: temperature does as much."""
    assert hours(node, 3 * DAY, 600, grows=0.5) == []


def test_much_that_does_not_grow_is_silent(node: Feed) -> None:
    """A link may always have worked hard."""
    assert hours(node, 3 * DAY, 10**6) == []


def test_a_step_is_no_trend(node: Feed) -> None:
    """A cable was moved: a hundred times as much from one hour to the next, and then the same, as far as chance lets it."""
    rng = np.random.default_rng(1)
    assert [said for mean in (600, 60_000) for _ in range(2 * DAY) for said in hours(node, 1, rng.poisson(mean))] == []


@pytest.mark.parametrize("begins", range(0, DAY, 4))
def test_a_swing_that_comes_every_day_is_no_trend(node: Feed, begins: int) -> None:
    """A hall that warms up by day: ten times as much each afternoon as each morning, whenever the agent began to look."""
    swing = [600 * 10 ** (0.5 * np.sin(2 * np.pi * hour / DAY)) for hour in range(begins, begins + 5 * DAY)]
    assert [said for count in swing for said in hours(node, 1, count)] == []


def test_a_handful_grows_fast_and_says_nothing(node: Feed) -> None:
    """From one codeword an hour to ten."""
    assert hours(node, DAY, 1, grows=1) == []


def test_codewords_that_were_corrected_with_ease_are_not_asked(node: Feed) -> None:
    """Only bins near what the correction can do count; the lower ones are noise of PAM4."""
    assert hours(node, DAY, 600, grows=2, counter="nvlink_fec_3_codewords") == []


def test_growth_over_a_gap_is_not_made_up(node: Feed) -> None:
    """Two days of nothing between little and much: nobody saw how it grew."""
    hours(node, DAY, 600)
    node.run(2 * DAY * HOUR, **{BIN: None})
    assert hours(node, 5, 10**5) == []


def test_it_ends_a_day_after_it_stopped_growing(node: Feed) -> None:
    """The link was changed."""
    hours(node, DAY, 600, grows=2)
    assert [f.phase for f in hours(node, 2 * DAY + 1, 600) if f.phase == "cleared"] == ["cleared"]


def test_an_infiniband_port_is_judged_by_its_corrected_blocks() -> None:
    """The same rule for the blocks that the port's error correction saved."""
    port = a_port("n1")
    feed = PortFeed(FecTail(), [port], period_s=600)
    said = [f for hour in range(DAY) for f in feed.run(HOUR, fec_corrected_blocks=int(200 * 10 ** (2 * hour / DAY)))]
    assert stands(said) == [("ib_port", port.id, "ib/fec_tail", "ticket")]
