"""Findings and incidents as alerts: what somebody is told, once per episode, with who was blamed
for what, how seriously, and when.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf, isfinite, isnan

from evaluation.metrics.truth import Entity, entity_of
from pipeline.finding import SEVERITIES, Finding, Incident, Severity

RANK: Mapping[Severity, int] = {severity: rank for rank, severity in enumerate(SEVERITIES)}


@dataclass(frozen=True, slots=True)
class AlertStatement:
    """One statement: when, how serious, how far the evidence was from normal (inf where it is not a
    number), and who was blamed for what then.

    ``ranked`` names who is to blame, best guess first. ``also`` are the other faults that an
    incident tells of its root: an uncorrectable error is its counter and its XID.
    """

    time_ns: int
    severity: Severity
    strength: float
    ranked: tuple[Entity, ...]
    fault: str
    also: frozenset[str] = frozenset()

    @property
    def words(self) -> frozenset[str]:
        """Every fault that was told of the root."""
        return self.also | {self.fault}


@dataclass(slots=True)
class Alert:
    """One episode of one detector about one device, or one incident.

    ``cleared_ns`` is 0 while it stands.

    ``said`` are the statements that went beyond all before them, in severity or in strength, or
    that blamed somebody else or for more.
    """

    id: str
    detector: str
    said: list[AlertStatement] = field(default_factory=list)
    cleared_ns: int = 0

    @property
    def root(self) -> Entity:
        """Who is blamed in the end."""
        return self.said[-1].ranked[0]

    @property
    def fault(self) -> str:
        """For what, in the end."""
        return self.said[-1].fault

    @property
    def severity(self) -> Severity:
        """The highest it got to."""
        return max((s.severity for s in self.said), key=RANK.__getitem__)

    def at(self, level: Severity, least: float = -inf) -> int | None:
        """When it was first told at this severity or a higher one with at least this
        strength; None if never.
        """
        return next(
            (
                s.time_ns
                for s in self.said
                if RANK[s.severity] >= RANK[level] and s.strength >= least
            ),
            None,
        )

    def strength(self, level: Severity) -> float:
        """The greatest strength it was told with at this severity or a
        higher one; -inf if never.
        """
        return max((s.strength for s in self.said if RANK[s.severity] >= RANK[level]), default=-inf)

    def say(self, said: AlertStatement) -> None:
        """Keep a statement if it says more or something else."""
        alike = [s for s in self.said if (s.ranked, s.words) == (said.ranked, said.words)]
        as_before = bool(alike) and self.said[-1] in alike
        if not as_before or not any(
            RANK[s.severity] >= RANK[said.severity] and s.strength >= said.strength for s in alike
        ):
            self.said.append(said)


def strength_of(finding: Finding) -> float:
    """Distance of a finding's value from what was expected, in its unit; inf for a
    fault that is not a number.

    >>> from pipeline.frame import Device
    >>> f = Finding(
    ...     "d",
    ...     Device("n1", "gpu", "G"),
    ...     "thermal",
    ...     "onset",
    ...     "ticket",
    ...     0,
    ...     0,
    ...     "hot",
    ...     value=7.5,
    ...     expected=3.0,
    ... )
    >>> strength_of(f)
    4.5
    """
    if isnan(finding.value):
        return inf
    return (
        abs(finding.value - finding.expected) if isfinite(finding.expected) else abs(finding.value)
    )


def alerts_of(findings: Iterable[Finding]) -> list[Alert]:
    """Alerts in the order they were first told.

    A finding told again after it cleared is another alert: somebody is woken again.
    """
    alerts: list[Alert] = []
    open_: dict[str, Alert] = {}
    for finding in findings:
        if finding.phase == "cleared":
            if finding.id in open_:
                open_.pop(finding.id).cleared_ns = finding.time_ns
            continue
        if finding.id not in open_:
            open_[finding.id] = Alert(finding.id, finding.detector)
            alerts.append(open_[finding.id])
        blamed = (entity_of(finding.device),)
        open_[finding.id].say(
            AlertStatement(
                finding.time_ns, finding.severity, strength_of(finding), blamed, finding.fault
            )
        )
    return alerts


def alerts_of_incidents(
    updates: Iterable[tuple[int, Incident]], findings: Iterable[Finding]
) -> list[Alert]:
    """Alerts from incidents as they were told, (unix ns, incident), in order; their
    members stand behind the root.

    Each update blames whom it blamed then: what is known later helps nobody earlier. An alert is
    the detector's whose finding it blames, and as strong as the evidence was when it was told;
    evidence that grew later is said when it grew. What ended in the moment it opened, as part of
    another, was told to nobody.
    """
    statements: dict[str, list[Finding]] = {}
    for finding in findings:
        statements.setdefault(finding.id, []).append(finding)
    alerts: dict[str, Alert] = {}
    told: dict[str, list[tuple[Incident, AlertStatement]]] = {}
    for time_ns, incident in updates:
        by_then = [
            s
            for name in incident.findings
            for s in statements.get(name, ())
            if s.time_ns <= time_ns
        ]
        blamed = next(
            (member.detector for member in by_then if member.fault == incident.fault), "incidents"
        )
        alert = alerts.setdefault(incident.id, Alert(incident.id, blamed))
        alert.detector, alert.cleared_ns = blamed, incident.cleared_ns
        if not incident.cleared_ns:
            told.setdefault(incident.id, []).append((incident, _said(incident, by_then, time_ns)))
    for name, updated in told.items():
        newest, then = updated[-1][0], [said for _, said in updated]
        grown = (
            _grown(g, then) for i in newest.findings for g in statements.get(i, ()) if g.active
        )
        for one in sorted((*then, *filter(None, grown)), key=lambda s: s.time_ns):
            alerts[name].say(one)
    return [alert for alert in alerts.values() if alert.said]


def _said(incident: Incident, members: list[Finding], time_ns: int) -> AlertStatement:
    """An update in the words of its own time; as strong as the strongest evidence of its severity,
    inf where there is none, as for a fault that is no number.
    """
    ranked = tuple(
        dict.fromkeys([entity_of(incident.root), *(entity_of(member.device) for member in members)])
    )
    newest = {m.id: m for m in members}.values()
    also = frozenset(
        m.fault for m in newest if m.active and m.device == incident.root and RANK[m.severity] > 0
    )
    grave = (
        strength_of(m) for m in members if m.active and RANK[m.severity] >= RANK[incident.severity]
    )
    return AlertStatement(
        time_ns, incident.severity, max(grave, default=inf), ranked, incident.fault, also
    )


def _grown(finding: Finding, told: list[AlertStatement]) -> AlertStatement | None:
    """Evidence that grew between two updates, in the words of the one before; None where nothing
    had been told by then, or an update says it.
    """
    then = next((said for said in reversed(told) if said.time_ns <= finding.time_ns), None)
    if then is None or then.time_ns == finding.time_ns:
        return None
    severity = min(finding.severity, then.severity, key=RANK.__getitem__)
    return replace(then, time_ns=finding.time_ns, severity=severity, strength=strength_of(finding))
