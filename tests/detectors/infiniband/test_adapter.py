"""Adapters whose driver reports a failure."""

from __future__ import annotations

import pytest

from detectors.infiniband import IbAdapter
from pipeline.frame import Device
from tests.detectors.feed import open_findings
from tests.detectors.port_feed import DOWN, PortFeed, a_port

RAILS = [a_port("n1", rail) for rail in range(8)]


ONE = RAILS[3]


def own(port: Device, **values: float | None) -> dict[str, dict[str, float | None]]:
    """Values of one port."""
    return {port.id: values}


def test_a_compromised_adapter_is_a_page_and_an_old_line_is_not() -> None:
    """What the driver reported yesterday, or before the boot, is history when an agent starts."""
    feed = PortFeed(IbAdapter(), RAILS)
    feed.once()
    assert (
        feed.event(
            ONE,
            "hca_health",
            ago_s=86400,
            reason="health",
            before_start=True,
            text="health compromised",
        )
        == []
    )
    assert (
        feed.event(
            ONE,
            "hca_health",
            ago_s=60,
            reason="health",
            previous_boot=True,
            text="health compromised",
        )
        == []
    )
    findings = feed.event(
        ONE, "hca_health", reason="health", interface="mlx5_3", text="health compromised"
    )
    assert open_findings(findings) == [("ib_port", ONE.id, "ib/adapter_health", "page")]
    feed.period_s = 60
    assert [f.phase for f in feed.run(3 * 3600)] == ["cleared"]


def test_a_dead_adapter_is_not_well_because_it_says_nothing_more() -> None:
    """The driver reports once; while the port is not active no silence counts.

    A reading that is lost now and then says nothing.
    """
    feed = PortFeed(IbAdapter(), RAILS, period_s=60)
    feed.event(ONE, "hca_health", reason="health", text="health compromised")
    assert feed.run(6 * 3600, own(ONE, state=DOWN)) == []
    lost = own(ONE, state=None)
    assert [f.phase for n in range(180) for f in feed.once(lost if n % 20 == 0 else None)] == [
        "cleared"
    ]


def test_an_adapter_that_its_driver_takes_on_anew_is_well_and_the_others_are_not() -> None:
    """After a firmware reset or a reload, one adapter at a time."""
    feed = PortFeed(IbAdapter(), RAILS)
    for port in (RAILS[0], ONE):
        feed.event(port, "hca_health", reason="health", text="health compromised")
    assert [
        f.device for f in feed.event(ONE, "module_loaded", module="mlx5_core", version="28.39.1002")
    ] == [ONE]
    assert feed.event(RAILS[0], "module_loaded", module="nvidia", version="580.95.05") == []
    assert (
        feed.event(
            Device("n1", "node", "n1"), "module_loaded", module="mlx5_core", version="28.39.1002"
        )
        == []
    )


def test_a_reboot_ends_what_a_driver_said_of_its_adapters() -> None:
    """The firmware begins again."""
    feed = PortFeed(IbAdapter(), RAILS)
    feed.event(ONE, "hca_health", reason="health", text="health compromised")
    feed.boot = "boot-2"
    assert [(f.device, f.phase) for f in feed.once()] == [(ONE, "cleared")]


@pytest.mark.slow
def test_an_adapter_that_fails_again_is_reported_at_once() -> None:
    """The driver reports it soon after two quiet hours ended the first."""
    feed = PortFeed(IbAdapter(), RAILS, period_s=60)
    feed.event(ONE, "hca_health", reason="health", text="health compromised")
    assert [f.phase for f in feed.run(127 * 60)] == ["cleared"]
    again = feed.event(ONE, "hca_health", reason="health", text="health compromised")
    assert open_findings(again) == [("ib_port", ONE.id, "ib/adapter_health", "page")]
    assert feed.run(3600) == []


def test_an_adapter_that_fails_again_while_it_is_reported_is_counted() -> None:
    """Its port works in between, and two lines within seconds are one failure."""
    feed = PortFeed(IbAdapter(), RAILS, period_s=60)
    for wait_s in (60, 1800):
        feed.event(ONE, "hca_health", reason="health", text="health compromised")
        feed.run(wait_s)
    (finding,) = feed.event(ONE, "hca_health", reason="health", text="health compromised")
    assert (finding.phase, finding.times) == ("ongoing", 2)
