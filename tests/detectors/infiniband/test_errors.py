"""Error counters of ports other than symbol errors."""

from __future__ import annotations

import pytest

from detectors.infiniband import IbErrors
from detectors.infiniband.errors import RULES, Rule
from pipeline.catalog.ib_counters import COUNTERS
from tests.detectors.feed import open_findings
from tests.detectors.port_feed import PortFeed, a_port

RAILS = [a_port("n1", rail) for rail in range(8)]


ONE = RAILS[3]


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.counter)
def test_every_error_counter_has_its_judgement(rule: Rule) -> None:
    """So much in as many windows as it takes is reported with the counter's name, within
    what its register can hold.
    """
    feed = PortFeed(IbErrors(), [ONE], period_s=60.0)
    quiet: dict[str, float] = {rule.counter: 0, "receive_packets": 10**6}
    assert feed.run(3600, {ONE.id: quiet}) == []
    findings = []
    for _ in range(rule.windows):
        findings += feed.run(60, {ONE.id: {**quiet, rule.counter: rule.least}})
        findings += feed.run(240, {ONE.id: quiet})
    findings += feed.run(60, {ONE.id: quiet})
    assert [(f.fault, f.severity) for f in findings if f.phase == "onset"] == [
        ("ib/errors", rule.severity)
    ]
    assert rule.counter in findings[0].evidence[0]


@pytest.mark.parametrize("counter", ["transmit_constraint_errors", "receive_constraint_errors"])
@pytest.mark.parametrize("minutes", range(5))
@pytest.mark.parametrize("parts", [(255,), (128, 127), (128, 300)])
def test_a_register_that_is_full_at_once_is_seen(
    counter: str, minutes: int, parts: tuple[int, ...]
) -> None:
    """A register of eight bits that becomes full within one reading or two is reported, wherever
    windows end.
    """
    feed = PortFeed(IbErrors(), [ONE], period_s=60.0)
    quiet: dict[str, float] = {counter: 0, "receive_packets": 10**6}
    assert feed.run(3600 + 60 * minutes, {ONE.id: quiet}) == []
    findings = [f for n in parts for f in feed.run(60, {ONE.id: {**quiet, counter: n}})]
    findings += feed.run(600, {ONE.id: quiet})
    assert [(f.phase, f.fault) for f in findings] == [("onset", "ib/errors")]


@pytest.mark.slow
def test_windows_without_a_reading_neither_heal_nor_add_to_errors() -> None:
    """Half an hour in which the counters cannot be read: what was found is still open."""
    feed = PortFeed(IbErrors(), [ONE], period_s=60.0)
    quiet: dict[str, float] = {"local_link_integrity_errors": 0, "receive_packets": 10**6}
    feed.run(600, {ONE.id: quiet})
    assert open_findings(feed.run(300, {ONE.id: {**quiet, "local_link_integrity_errors": 1}}))
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
