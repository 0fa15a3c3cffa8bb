"""Counters at their highest value."""

from __future__ import annotations

import pytest

from detectors.infiniband.saturation import IbSaturation
from tests.detectors.feed import open_findings
from tests.detectors.port_feed import DOWN, PortFeed, a_port

HOUR = 3600
PORT = a_port("n1")


def test_a_counter_at_its_end_is_a_ticket() -> None:
    """It counts no further: new errors go unseen."""
    feed = PortFeed(IbSaturation(), [PORT])
    feed.once(symbol_errors=65_000)
    findings = feed.run(60, symbol_errors=1000)
    assert open_findings(findings) == [("ib_port", PORT.id, "counter_saturated", "ticket")]


def test_a_full_counter_with_a_64_bit_twin_is_no_loss_of_sight() -> None:
    """The twin counts on."""
    feed = PortFeed(IbSaturation(), [PORT])
    assert feed.run(60, symbol_errors=65_535, symbol_errors_extended=0) == []


def test_a_64_bit_twin_that_is_late_is_waited_for() -> None:
    """The first answer of perfquery comes seconds after the agent has started, and while a port is
    down there is none.
    """
    feed = PortFeed(IbSaturation(), [PORT])
    feed.totals[PORT.id, "symbol_errors"] = 65_535
    findings = feed.run(20, symbol_errors=0)
    findings += feed.run(180, symbol_errors=0, symbol_errors_extended=0)
    findings += feed.run(600, symbol_errors=0, state=DOWN)
    findings += feed.run(60, symbol_errors=0)
    assert findings + feed.run(60, symbol_errors=0, symbol_errors_extended=0) == []


@pytest.mark.slow
def test_what_comes_back_within_the_rest_and_stays_is_told_after_it() -> None:
    """A counter that was set to 0 and was at its end again within the hour."""
    feed = PortFeed(IbSaturation(), [PORT])

    def grows_from(count: int, by: int) -> list[str]:
        feed.totals[PORT.id, "symbol_errors"] = count
        return [f.phase for f in feed.run(60, symbol_errors=by)]

    assert grows_from(65_000, 1000) + grows_from(0, 1) + grows_from(65_000, 1000) == [
        "onset",
        "cleared",
    ]
    assert open_findings(feed.run(HOUR, symbol_errors=0)) == [
        ("ib_port", PORT.id, "counter_saturated", "ticket")
    ]
