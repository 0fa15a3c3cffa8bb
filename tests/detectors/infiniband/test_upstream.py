"""Ports that lose their link together: the leaf switch, or the rail, is the root cause."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from detectors.infiniband import IbLink
from pipeline.finding import Finding
from pipeline.frame import Device
from tests.detectors.feed import open_findings
from tests.detectors.port_feed import DOWN, PortFeed, Reading, a_port

pytestmark = pytest.mark.slow

BUSY: dict[str, float] = {
    "transmit_words": 10 * 12_500_000_000 // 8
}  # a quarter of NDR, in ten seconds
IDLE: dict[str, float] = {"transmit_words": 0}
NODES = 12


def two_rails(nodes: int = NODES, **facts: str) -> list[Device]:
    """Two ports of each node."""
    return [a_port(f"n{node}", rail, **facts) for node in range(nodes) for rail in range(2)]


def under_a_job(ports: Sequence[Device]) -> PortFeed:
    """All nodes in one job, which works for five minutes."""
    feed = PortFeed(IbLink(), ports)
    for host in dict.fromkeys(port.host for port in ports):
        feed.event(
            Device(host, "node", host), "job_started", job="7", gpus=f"G-{host}", hosts=NODES
        )
    assert feed.run(300, None, **BUSY) == []
    return feed


def of_rail(ports: Sequence[Device], rail: int, **values: float) -> dict[str, Reading]:
    """Values of one rail of all nodes."""
    return {port.id: values for port in ports if port.id.endswith(f"/{rail}")}


def on_leaves(ports: Sequence[Device]) -> list[Device]:
    """Each rail has a leaf switch."""
    return [
        Device(port.host, port.kind, port.id, {**port.attributes, "leaf": f"leaf-{port.id[-1]}"})
        for port in ports
    ]


def test_a_leaf_switch_under_jobs_that_stopped_is_a_ticket_in_a_minute_and_a_page_after_ten() -> (
    None
):
    """It is one finding about the switch; no port is named, and it ends a minute after the ports
    are back.
    """
    ports = on_leaves(two_rails())
    feed = under_a_job(ports)
    lost = of_rail(ports, 1, state=DOWN, **IDLE)
    findings = feed.run(80, lost, **IDLE)
    assert open_findings(findings) == [("switch", "leaf-1", "ib/switch_down", "ticket")]
    assert "12 of 12 nodes with jobs behind it send nothing" in findings[-1].evidence
    findings += feed.run(600, lost, **IDLE)
    assert open_findings(findings) == [("switch", "leaf-1", "ib/switch_down", "page")]
    assert [one.phase for one in feed.run(90, None, **BUSY)] == ["cleared"]


def test_a_leaf_switch_that_reboots_while_its_jobs_go_on_has_a_quarter_of_an_hour() -> None:
    """Other rails carry their traffic: nothing is reported for ten minutes."""
    ports = on_leaves(two_rails())
    feed = under_a_job(ports)
    assert feed.run(600, of_rail(ports, 1, state=DOWN, **IDLE), **BUSY) == []


@pytest.mark.parametrize(("rail", "name"), [("1", "1"), ("", "mlx5_1/1")])
def test_where_no_leaf_switch_is_known_the_rail_is_the_root(rail: str, name: str) -> None:
    """By its number in the topology, else by the name of the adapters; it says what is missing."""
    ports = [
        Device(port.host, port.kind, port.id, {**port.attributes, "rail": rail})
        for port in two_rails()
    ]
    feed = under_a_job(ports)
    findings = feed.run(80, of_rail(ports, 1, state=DOWN, **IDLE), **IDLE)
    assert open_findings(findings) == [("rail", name, "ib/switch_down", "ticket")]
    assert "Which leaf switch is behind them is not known" in findings[0].summary


def test_cables_of_one_rail_that_fail_minutes_apart_are_cables() -> None:
    """Nine nodes lose the rail one after the other."""
    ports = two_rails()
    feed, lost = under_a_job(ports), dict[str, Reading]()
    findings: list[Finding] = []
    for port in [port for port in ports if port.id.endswith("/1")][:9]:
        lost[port.id] = {"state": DOWN, **IDLE}
        findings += feed.run(60, lost, **BUSY)
    assert {kind for kind, *_ in open_findings(findings)} == {"ib_port"}


def test_nodes_that_lose_all_rails_at_once_are_no_rails() -> None:
    """A row without power at its switches: nothing says that one rail is to be looked at."""
    ports = two_rails()
    feed = under_a_job(ports)
    findings = feed.run(80, {port.id: {"state": DOWN, **IDLE} for port in ports}, **IDLE)
    assert {kind for kind, *_ in open_findings(findings)} == {"ib_port"}


def test_a_switch_with_a_thousand_ports_costs_no_more_than_its_ports_do() -> None:
    """A reading in which all of them are down, under jobs, is judged in at most ten times the time
    of one in which all are up.
    """
    ports = on_leaves([a_port(f"n{node}", 1) for node in range(1000)])
    feed = under_a_job(ports)
    findings, seconds = list[Finding](), list[float]()
    for own in (of_rail(ports, 1), of_rail(ports, 1, state=DOWN, **IDLE)):
        findings += feed.run(60, own, **IDLE)  # the second time for long enough to be reported
        begin = time.process_time()
        findings += feed.run(30, own, **IDLE)
        seconds.append(time.process_time() - begin)
    assert open_findings(findings) == [("switch", "leaf-1", "ib/switch_down", "ticket")]
    assert seconds[1] < 10 * seconds[0]
