"""Ports that wait for credit."""

from __future__ import annotations

import pytest

from detectors.infiniband import IbCongestion
from tests.detectors.feed import open_findings
from tests.detectors.port_feed import PortFeed, a_port

RAILS = [a_port("n1", rail) for rail in range(8)]


WORDS: dict[str, float] = {
    "transmit_words": 10 * 12_500_000_000 // 8,
    "receive_words": 10 * 12_500_000_000 // 8,
}  # a quarter of NDR


@pytest.mark.slow
def test_congestion_is_recorded_of_the_switch_and_never_of_a_port() -> None:
    """Twelve ports of a leaf wait a hundred times as long as usual at the same traffic."""
    ports = [a_port(f"n{n}", 0, leaf="leaf-0") for n in range(12)]
    feed = PortFeed(IbCongestion(), ports)
    assert feed.run(3600, transmit_wait_ticks=100, transmit_words=WORDS["transmit_words"]) == []
    findings = feed.run(600, transmit_wait_ticks=10_000, transmit_words=WORDS["transmit_words"])
    assert open_findings(findings) == [("switch", "leaf-0", "congestion", "record")]
    assert [
        f.phase
        for f in feed.run(600, transmit_wait_ticks=100, transmit_words=WORDS["transmit_words"])
    ] == ["cleared"]


@pytest.mark.slow
def test_waiting_without_traffic_is_no_congestion() -> None:
    """An idle fabric may wait as it likes."""
    feed = PortFeed(IbCongestion(), RAILS)
    assert feed.run(3600, transmit_wait_ticks=0, transmit_words=0) == []
    assert feed.run(600, transmit_wait_ticks=10_000, transmit_words=0) == []
