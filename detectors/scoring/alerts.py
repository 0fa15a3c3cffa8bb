"""Findings and incidents as alerts: what somebody is told, once per episode, with when it became how serious."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf, isfinite, isnan

from detectors.scoring.truth import Entity, entity_of
from pipeline.finding import SEVERITIES, Finding, Incident, Severity

RANK: Mapping[Severity, int] = {severity: rank for rank, severity in enumerate(SEVERITIES)}


@dataclass(frozen=True, slots=True)
class Said:
    """One statement: when, how serious, and how far the evidence was from normal (inf where it is not a number)."""

    time_ns: int
    severity: Severity
    strength: float


@dataclass(slots=True)
class Alert:
    """One episode of one detector about one device. ``ranked`` names who is to blame, best guess first.

    ``said`` holds the statements that went beyond all before them, in severity or in strength. ``cleared_ns`` is 0 while it stands.
    ``also`` are the other faults that an incident tells of its root: an uncorrectable error is its counter and its XID.
    """

    id: str
    detector: str
    fault: str
    ranked: tuple[Entity, ...]
    said: list[Said] = field(default_factory=list)
    cleared_ns: int = 0
    also: frozenset[str] = frozenset()

    @property
    def severity(self) -> Severity:
        """The highest it got to."""
        return max((s.severity for s in self.said), key=RANK.__getitem__)

    def at(self, level: Severity, least: float = -inf) -> int | None:
        """When it was first told at this severity or a higher one with at least this strength; None if never."""
        return next((s.time_ns for s in self.said if RANK[s.severity] >= RANK[level] and s.strength >= least), None)

    def strength(self, level: Severity) -> float:
        """The greatest strength it was told with at this severity or a higher one; -inf if never."""
        return max((s.strength for s in self.said if RANK[s.severity] >= RANK[level]), default=-inf)

    def say(self, said: Said) -> None:
        """Keep a statement if it goes beyond those before."""
        if not any(RANK[s.severity] >= RANK[said.severity] and s.strength >= said.strength for s in self.said):
            self.said.append(said)


def strength_of(finding: Finding) -> float:
    """Distance of a finding's value from what was expected, in its unit; inf for a fault that is not a number.

    >>> from pipeline.frame import Device
    >>> f = Finding("d", Device("n1", "gpu", "G"), "thermal", "onset", "ticket", 0, 0, "hot", value=7.5, expected=3.0)
    >>> strength_of(f)
    4.5
    """
    if isnan(finding.value):
        return inf
    return abs(finding.value - finding.expected) if isfinite(finding.expected) else abs(finding.value)


def alerts_of(findings: Iterable[Finding]) -> list[Alert]:
    """Alerts in the order they were first told. A finding told anew after it cleared is another alert: somebody is woken again."""
    alerts: list[Alert] = []
    open_: dict[str, Alert] = {}
    for finding in findings:
        if finding.phase == "cleared":
            if finding.id in open_:
                open_.pop(finding.id).cleared_ns = finding.time_ns
            continue
        if finding.id not in open_:
            open_[finding.id] = Alert(finding.id, finding.detector, finding.fault, (entity_of(finding.device),))
            alerts.append(open_[finding.id])
        open_[finding.id].say(Said(finding.time_ns, finding.severity, strength_of(finding)))
    return alerts


def alerts_of_incidents(updates: Iterable[tuple[int, Incident]], findings: Iterable[Finding]) -> list[Alert]:
    """Alerts from incidents as they were told, (unix ns, incident), in order; their members stand behind the root.

    A later update may change root, class and severity: who looks then is told the newest root. An alert is the detector's whose
    finding it blames, and as strong as the evidence was when it was told; evidence that grew later is said when it grew. What ended in the
    moment it opened, as part of another, was told to nobody.
    """
    statements: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.active:
            statements.setdefault(finding.id, []).append(finding)
    alerts: dict[str, Alert] = {}
    said: dict[str, list[Said]] = {}
    newest: dict[str, Incident] = {}
    for time_ns, incident in updates:
        members = [statement for i in incident.findings for statement in statements.get(i, ())]
        ranked = tuple(dict.fromkeys([entity_of(incident.root), *(entity_of(member.device) for member in members)]))
        blamed = next((member.detector for member in members if member.fault == incident.fault), "incidents")
        alert = alerts.setdefault(incident.id, Alert(incident.id, blamed, incident.fault, ranked))
        alert.detector, alert.ranked, alert.fault, alert.cleared_ns = blamed, ranked, incident.fault, incident.cleared_ns
        alert.also = frozenset(m.fault for m in members if m.device == incident.root and RANK[m.severity] > 0)
        if not incident.cleared_ns:
            said.setdefault(incident.id, []).append(Said(time_ns, incident.severity, _strength(incident, members, time_ns)))
            newest[incident.id] = incident
    for name, incident in newest.items():
        grown = (statement for i in incident.findings for statement in statements.get(i, ()))
        later = (
            Said(g.time_ns, min(g.severity, incident.severity, key=RANK.__getitem__), strength_of(g))
            for g in grown
            if g.time_ns > said[name][0].time_ns
        )
        for one in sorted((*said[name], *later), key=lambda s: s.time_ns):
            alerts[name].say(one)
    return [alert for alert in alerts.values() if alert.said]


def _strength(incident: Incident, members: Iterable[Finding], time_ns: int) -> float:
    """Of the strongest evidence of the incident's own severity by then; inf where there is none, as for a fault that is not a number."""
    grave = (m for m in members if m.time_ns <= time_ns and RANK[m.severity] >= RANK[incident.severity])
    return max(map(strength_of, grave), default=inf)
