"""Lanes and generation of adapters: what was lost, what is a setting, and what is meant so."""

from __future__ import annotations

import pytest

from detectors.pcie.adapter import GENERATION, WIDTH
from detectors.pcie.detector import Pcie
from tests.detectors.feed import open_findings
from tests.detectors.port_feed import PortFeed, Reading, a_port

WELL: dict[str, float | None] = {
    "pcie_width_current": 16,
    "pcie_width_maximum": 16,
    "pcie_generation_current": 5,
    "pcie_generation_maximum": 5,
}
NARROW: dict[str, float | None] = {"pcie_width_current": 8}
SLOW: dict[str, float | None] = {"pcie_generation_current": 3}
DAY = 86400.0


@pytest.fixture
def node() -> PortFeed:
    """A node with eight adapters that are well."""
    feed = PortFeed(Pcie(), [a_port("n1", rail) for rail in range(8)])
    assert feed.run(600, None, **WELL) == []
    return feed


def those(names: tuple[str, ...], reading: Reading) -> dict[str, Reading]:
    """The same reading of some ports."""
    return dict.fromkeys(names, reading)


ALL = tuple(f"n1/{rail}" for rail in range(8))


@pytest.mark.parametrize(
    ("lost", "fault"), [(NARROW, WIDTH), (SLOW, GENERATION)], ids=["lanes", "generation"]
)
def test_what_one_adapter_lost_is_paged_within_three_minutes(
    node: PortFeed, lost: Reading, fault: str
) -> None:
    """F18, of an adapter: half the lanes, or a lower generation, while its neighbours have all;
    over five minutes after they are back.
    """
    findings = node.run(180, those(ALL[3:4], lost), **WELL)
    assert open_findings(findings) == [("ib_port", "n1/3", fault, "page")]
    assert "mlx5_3/1 of n1" in findings[0].summary
    assert [finding.phase for finding in node.run(310, None, **WELL)] == ["cleared"]


def test_a_link_that_trains_for_a_minute_is_silent(node: PortFeed) -> None:
    """One reading of a minute catches it, the next does not."""
    for _ in range(10):
        assert node.run(60, those(ALL[3:4], NARROW), **WELL) + node.run(60, None, **WELL) == []


def test_an_adapter_that_comes_back_from_a_boot_with_fewer_lanes_is_paged(node: PortFeed) -> None:
    """What it was is remembered over the boot."""
    node.boot = "boot-2"
    assert open_findings(node.run(180, those(ALL[3:4], NARROW), **WELL)) == [
        ("ib_port", "n1/3", WIDTH, "page")
    ]


@pytest.mark.slow
def test_a_setting_that_slows_all_adapters_pages_nobody(node: PortFeed) -> None:
    """A firmware that comes up with generation 4 for all: tickets, and accepted after a week."""
    node.boot = "boot-2"
    four = {**WELL, "pcie_generation_current": 4}
    assert {severity for *_, severity in open_findings(node.run(180, None, **four))} == {"ticket"}
    node.period_s = 600.0
    assert {finding.phase for finding in node.run(7.1 * DAY, None, **four)} == {"cleared"}


def test_an_adapter_that_never_had_what_the_others_have_is_a_ticket() -> None:
    """It may have been put into the wrong slot; adapters of another model are no measure."""
    ports = [a_port("n1", rail) for rail in range(8)] + [a_port("n1", 8, hca_type="MT4123")]
    feed = PortFeed(Pcie(), ports)
    findings = feed.run(180, those(("n1/3", "n1/8"), NARROW), **WELL)
    assert open_findings(findings) == [("ib_port", "n1/3", WIDTH, "ticket")]


def test_two_kinds_of_slots_are_no_majority() -> None:
    """Four adapters with sixteen lanes and four with eight: nobody says which is right."""
    feed = PortFeed(Pcie(), [a_port("n1", rail) for rail in range(8)])
    assert feed.run(600, those(ALL[:4], NARROW), **WELL) == []


def test_a_slot_that_allows_no_more_is_no_fault(node: PortFeed) -> None:
    """The card was moved into a slot with eight lanes: it does what it can there."""
    node.boot = "boot-2"
    assert (
        node.run(
            DAY / 24, those(ALL[3:4], {"pcie_width_current": 8, "pcie_width_maximum": 8}), **WELL
        )
        == []
    )


def test_an_adapter_alone_is_measured_against_itself() -> None:
    """A node with one adapter has no neighbours to vote."""
    feed = PortFeed(Pcie(), [a_port("n1")])
    assert feed.run(600, None, **WELL | NARROW) == []
    feed.run(600, None, **WELL)
    assert open_findings(feed.run(180, None, **WELL | NARROW)) == [
        ("ib_port", "n1/0", WIDTH, "page")
    ]


def test_what_is_not_observed_says_nothing(node: PortFeed) -> None:
    """A kernel that shows no widths, a virtual function, a port that is gone."""
    nothing: dict[str, float | None] = dict.fromkeys(WELL)
    assert node.run(3600, None, **nothing) == []
