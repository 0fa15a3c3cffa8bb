"""A rail that carries less than the others of its node."""

from __future__ import annotations

import pytest

from detectors.infiniband import IbRail
from pipeline.frame import Device
from tests.detectors.feed import open_findings
from tests.detectors.port_feed import DOWN, PortFeed, a_link, a_port

RAILS = [a_port("n1", rail) for rail in range(8)]


ONE = RAILS[3]


WORDS: dict[str, float] = {
    "transmit_words": 10 * 12_500_000_000 // 8,
    "receive_words": 10 * 12_500_000_000 // 8,
}  # a quarter of NDR


@pytest.mark.slow
def test_a_rail_at_half_its_traffic_is_a_ticket_within_seven_minutes() -> None:
    """Half of what the other rails carry, in a job that uses all of them; silent
    while the whole node pauses.
    """
    feed = PortFeed(IbRail(), RAILS)
    assert feed.run(1800, dict.fromkeys([p.id for p in RAILS], WORDS)) == []
    assert feed.run(300, transmit_words=0, receive_words=0) == []
    half = {name: value // 2 for name, value in WORDS.items()}
    findings = feed.run(420, {**dict.fromkeys([p.id for p in RAILS], WORDS), ONE.id: half})
    assert open_findings(findings) == [("ib_port", ONE.id, "straggler", "ticket")]
    assert findings[0].value == pytest.approx(-50, abs=0.5)


@pytest.mark.slow
def test_a_rail_that_always_carries_less_is_normal() -> None:
    """Its own past counts: a rail of another kind of traffic is not slow."""
    half = {name: value // 2 for name, value in WORDS.items()}
    feed = PortFeed(IbRail(), RAILS)
    assert feed.run(7200, {**dict.fromkeys([p.id for p in RAILS], WORDS), ONE.id: half}) == []


@pytest.mark.slow
@pytest.mark.parametrize("of_storage", [{"link_layer": "Ethernet"}, {"board_id": "MT_0000000834"}])
def test_ports_of_storage_are_no_rails(of_storage: dict[str, str]) -> None:
    """Two ports of the same model, but of another board or link layer, as on a DGX H100: a job that
    has read its data needs them no more.
    """
    rails = [a_port("n1", rail, board_id="NVD0000000022") for rail in range(8)]
    storage = [a_port("n1", 8 + n, **{"board_id": "NVD0000000022"} | of_storage) for n in range(2)]
    feed = PortFeed(IbRail(), [*rails, *storage])
    busy = dict.fromkeys([p.id for p in rails], WORDS)
    tenth = {name: value // 10 for name, value in WORDS.items()}
    assert feed.run(7200, {**busy, **{p.id: tenth for p in storage}}) == []
    assert feed.run(1800, busy, transmit_words=0, receive_words=0) == []


@pytest.mark.slow
def test_the_port_of_a_server_that_is_switched_off_is_no_slow_rail() -> None:
    """Each port carries the requests of another server; one is scaled down to nothing at night."""
    feed = PortFeed(IbRail(), RAILS)
    shares = (1.0, 1.0, 0.6, 0.6, 0.3, 0.3, 0.3, 0.1)
    serve = {
        port.id: {name: round(share * value) for name, value in WORDS.items()}
        for port, share in zip(RAILS, shares, strict=True)
    }
    assert feed.run(3600, serve) == []
    assert feed.run(3600, serve | {ONE.id: {"transmit_words": 0, "receive_words": 0}}) == []


@pytest.mark.slow
@pytest.mark.parametrize(("jobs", "found"), [((8,), True), ((4, 4), False)])
def test_ports_of_several_jobs_are_no_rails_of_each_other(
    jobs: tuple[int, ...], *, found: bool
) -> None:
    """A scheduler gave the node to two of them: one that ends a phase slows nobody down."""
    feed, first = PortFeed(IbRail(), RAILS), 0
    for number, size in enumerate(jobs):
        gpus = " ".join(f"GPU-{n}" for n in range(first, first + size))
        first += size
        at = Device("n1", "node", "n1")
        feed.event(at, "job_started", source="jobs", job=str(number), gpus=gpus, hosts=1)
    busy = dict.fromkeys([p.id for p in RAILS], WORDS)
    half = {name: value // 2 for name, value in WORDS.items()}
    assert feed.run(1800, busy) == []
    assert bool(feed.run(900, busy | {ONE.id: half})) == found


@pytest.mark.slow
def test_a_rail_that_was_down_is_not_slow() -> None:
    """Down for twenty of every sixty seconds for ten minutes (H13): what it carries meanwhile is
    no measure of its speed.
    """
    feed, rails = PortFeed(IbRail(), RAILS), dict.fromkeys([p.id for p in RAILS], WORDS)
    feed.run(1800, rails)
    findings = []
    for _ in range(10):
        findings += feed.run(
            20, {**rails, ONE.id: {"state": DOWN, "transmit_words": 0, "receive_words": 0}}
        )
        findings += feed.run(40, rails)
    assert findings == []


def test_ports_of_a_switch_alone_are_no_rails() -> None:
    """A view that holds no node's port has nobody to compare, and says nothing."""
    feed = PortFeed(IbRail(), [a_link(f"n{n}")[1] for n in range(8)])
    assert (
        feed.run(1200, transmit_words=WORDS["transmit_words"], receive_words=WORDS["receive_words"])
        == []
    )
