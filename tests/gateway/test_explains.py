"""Whose incident explains whose."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway import explains
from gateway.arrivals import Host
from gateway.explains import Explanations
from pipeline.finding import Finding, Incident, Severity
from pipeline.frame import Device

SWITCH = Device("", "switch", "leaf1")
PORTS = [Device(f"n{n}", "ib_port", f"0x{n}") for n in range(4)]


def finding(device: Device) -> Finding:
    """A link of the switch is down."""
    return Finding("infiniband", device, "ib/link_down", "onset", "page", 1000, 1000, "Link down.")


def incident(root: Device, severity: Severity = "page", *findings: Finding) -> Incident:
    """An open one, named after its root and severity."""
    ids = tuple(each.id for each in findings)
    name = f"{root.id}-{severity}"
    return Incident(name, root, "ib", severity, "NONE", 1000, ids, "Link down.")


def explained(theirs: Incident, *ours: Incident, host: str = "n1") -> list[tuple[str, ...]]:
    """What the gateway exports about one incident of one agent."""
    explanations = Explanations()
    explanations.note(map(finding, PORTS))
    return [*explanations.of("c1", ours, [Host(host, open=(theirs,))])]


def test_an_agents_incident_is_explained_by_one_that_covers_its_device() -> None:
    """By its host, root, class and severity, as the agent exports it, and by whom."""
    switch = incident(SWITCH, "page", *map(finding, PORTS[:2]))
    assert explained(incident(PORTS[1]), switch) == [
        ("c1", "n1", "ib_port", "0x1", "ib", "page", "leaf1-page")
    ]
    assert explained(incident(PORTS[3]), switch) == []


def test_a_name_that_each_node_has_is_a_device_of_one_node() -> None:
    """The mount /data of another node fails for itself."""
    mounts = [Device(host, "mount", "/data") for host in ("n1", "n2")]
    over = incident(Device("n1", "node", "n1"), "page", finding(mounts[0]))
    explanations = Explanations()
    explanations.note([finding(mounts[0])])
    hosts = [Host(each.host, open=(incident(each, "ticket"),)) for each in mounts]
    assert [labels[1] for labels in explanations.of("c1", [over], hosts)] == ["n1"]


def test_an_incident_all_of_whose_findings_are_covered_is_explained() -> None:
    """An agent that lost all ports blames its node; the gateway knows the switch."""
    switch = incident(SWITCH, "page", *map(finding, PORTS[:3]))
    node = Device("n1", "node", "n1")
    assert explained(incident(node, "page", *map(finding, PORTS[:2])), switch)
    assert not explained(incident(node, "page", *map(finding, PORTS[2:])), switch)


@pytest.mark.parametrize(
    ("theirs", "ours", "silent"),
    [("page", "ticket", False), ("ticket", "ticket", True), ("ticket", "page", True)],
)
def test_a_lesser_incident_explains_no_graver_one(
    theirs: Severity, ours: Severity, silent: bool
) -> None:
    """A page is never silenced for a ticket."""
    assert bool(
        explained(incident(PORTS[1], theirs), incident(SWITCH, ours, finding(PORTS[1])))
    ) is (silent)


def test_where_both_name_the_same_device_the_agent_alerts() -> None:
    """Also where another incident covers that device; one that is graver explains it."""
    port = PORTS[1]
    switch = incident(SWITCH, "page", finding(port))
    assert not explained(incident(port), incident(port, "page", finding(port)), switch)
    assert explained(incident(port, "ticket"), incident(port, "page", finding(port)))


def test_what_is_only_recorded_neither_explains_nor_is_explained() -> None:
    """Nobody is notified of it."""
    assert not explained(incident(PORTS[1], "record"), incident(SWITCH, "page", finding(PORTS[1])))
    assert not explained(incident(PORTS[1]), incident(SWITCH, "record", finding(PORTS[1])))


def test_two_incidents_give_one_series() -> None:
    """Alertmanager before 0.34.1 forgets one of two sources of equal labels."""
    two = (incident(Device("", "switch", s), "page", finding(PORTS[1])) for s in ("a", "b"))
    assert len(explained(incident(PORTS[1]), *two)) == 1


def test_beyond_the_limit_agents_alert_and_it_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The series of one gateway are bounded."""
    monkeypatch.setattr(explains, "MAX_EXPLAINED", 1)
    explanations = Explanations()
    explanations.note(map(finding, PORTS))
    hosts = [Host(f"n{n}", open=(incident(port),)) for n, port in enumerate(PORTS)]
    switch = incident(SWITCH, "page", *map(finding, PORTS))
    assert len(explanations.of("c1", [switch], hosts)) == 1
    assert explanations.overflow == 3


def test_an_incident_that_opens_later_than_its_findings_covers_their_devices() -> None:
    """As of a node that was out of service, or where what was recorded becomes a page."""
    explanations, standing = Explanations(), [finding(port) for port in PORTS]
    explanations.note(standing)
    recorded = incident(SWITCH, "record", *standing)
    for before in ([], [recorded]):
        explanations.of("c1", before, [], standing)
    switch, hosts = incident(SWITCH, "page", *standing), [Host("n1", open=(incident(PORTS[1]),))]
    assert explanations.of("c1", [switch], hosts, standing)


def test_devices_of_findings_that_no_open_incident_holds_are_forgotten() -> None:
    """A gateway runs for months."""
    explanations = Explanations()
    explanations.note(map(finding, PORTS))
    explanations.of("c1", [], [])
    switch = incident(SWITCH, "page", *map(finding, PORTS))
    assert not explanations.of("c1", [switch], [Host("n1", open=(incident(PORTS[1]),))])


@pytest.mark.parametrize(
    ("root", "facts"),
    [(SWITCH, {"leaf": "leaf1"}), (Device("", "rail", "3"), {"rail": "3"})],
)
def test_a_dead_switch_explains_the_ports_of_its_nodes(root: Device, facts: dict[str, str]) -> None:
    """It names none of a thousand ports; each agent knows of its own, and where it is cabled to."""
    dead = replace(incident(root), fault="ib/switch_down")
    port = replace(PORTS[1], attributes=facts)
    down = replace(incident(port), fault="ib/link_down")
    assert [labels[-1] for labels in explained(down, dead)] == [dead.id]
    assert explained(replace(down, fault="pcie/width"), dead) == []
    assert explained(replace(down, root=PORTS[2]), dead) == []


def test_an_incident_that_does_not_alert_explains_nothing_and_is_remembered() -> None:
    """Beyond the series that are shown; once it is, devices of findings that have ended count."""
    explanations = Explanations()
    explanations.note(map(finding, PORTS))
    switch = incident(SWITCH, "page", *map(finding, PORTS[:2]))
    theirs = [Host("n1", open=(incident(PORTS[1]),))]
    assert explanations.of("c1", [switch], theirs, alerting=[]) == {}
    assert len(explanations.of("c1", [switch], theirs, alerting=[switch])) == 1
