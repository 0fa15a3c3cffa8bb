"""Findings and incidents as alerts: one per episode, with root device, fault, severity and time of
each statement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf, isfinite, isnan

from evaluation.metrics.truth import Entity, entity_of
from pipeline.finding import SEVERITIES, Finding, Incident, Severity

RANK: Mapping[Severity, int] = {severity: rank for rank, severity in enumerate(SEVERITIES)}


@dataclass(frozen=True, slots=True)
class AlertStatement:
    """One statement of an alert: its time, severity, distance of the evidence from normal (inf
    where it is not a number), and the root device and fault as known then.

    ``ranked`` are the candidates for the root, best guess first. ``also`` are the other faults of
    the root in an incident: an uncorrectable error is its counter and its XID. ``times``: how often
    each fault of the root had happened by then, where more than once.
    """

    time_ns: int
    severity: Severity
    strength: float
    ranked: tuple[Entity, ...]
    fault: str
    also: frozenset[str] = frozenset()
    times: tuple[tuple[str, int], ...] = ()

    @property
    def faults(self) -> frozenset[str]:
        """Every fault of the root."""
        return self.also | {self.fault}


@dataclass(slots=True)
class Alert:
    """One episode of one detector about one device, or one incident.

    ``cleared_ns`` is 0 while it is open.

    ``statements`` are those that exceed all before them in severity or in strength, that name
    another root or more faults, or that a fault has happened again.
    """

    id: str
    detector: str
    statements: list[AlertStatement] = field(default_factory=list)
    cleared_ns: int = 0

    @property
    def root(self) -> Entity:
        """Root device of the last statement."""
        return self.statements[-1].ranked[0]

    @property
    def fault(self) -> str:
        """Fault of the last statement."""
        return self.statements[-1].fault

    @property
    def severity(self) -> Severity:
        """The highest of all statements."""
        return max((s.severity for s in self.statements), key=RANK.__getitem__)

    def at(self, level: Severity, least: float = -inf) -> int | None:
        """Time of the first statement at this severity or a higher one with at least this strength,
        unix ns; None if there is none.
        """
        return next(
            (
                s.time_ns
                for s in self.statements
                if RANK[s.severity] >= RANK[level] and s.strength >= least
            ),
            None,
        )

    def strength(self, level: Severity) -> float:
        """Greatest strength of the statements at this severity or a higher one; -inf if there is
        none.
        """
        return max(
            (s.strength for s in self.statements if RANK[s.severity] >= RANK[level]), default=-inf
        )

    def add(self, new: AlertStatement) -> None:
        """Keep a statement if it has more than those before, or something else."""
        alike = [
            s
            for s in self.statements
            if (s.ranked, s.faults, s.times) == (new.ranked, new.faults, new.times)
        ]
        as_before = bool(alike) and self.statements[-1] in alike
        if not as_before or not any(
            RANK[s.severity] >= RANK[new.severity] and s.strength >= new.strength for s in alike
        ):
            self.statements.append(new)


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
    """Alerts in the order of their first statement.

    A finding that opens again after it cleared is another alert: it pages again.
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
        root = (entity_of(finding.device),)
        open_[finding.id].add(
            AlertStatement(
                finding.time_ns,
                finding.severity,
                strength_of(finding),
                root,
                finding.fault,
                times=_often({finding.fault: finding.times}),
            )
        )
    return alerts


def _often(times: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((fault, number) for fault, number in times.items() if number > 1))


def alerts_of_incidents(
    updates: Iterable[tuple[int, Incident]], findings: Iterable[Finding]
) -> list[Alert]:
    """Alerts from the updates of incidents, (unix ns, incident), in order; the devices of the
    members follow the root in ``ranked``.

    Each update keeps the root of its time: what is known later is no help earlier. An alert belongs
    to the detector of the finding about its fault, and is as strong as the evidence was at the time
    of the update; evidence that grew later is a statement of the time when it grew. An incident
    that ended in the moment it opened, as part of another, is no alert.
    """
    by_id: dict[str, list[Finding]] = {}
    for finding in findings:
        by_id.setdefault(finding.id, []).append(finding)
    alerts: dict[str, Alert] = {}
    stated: dict[str, list[tuple[Incident, AlertStatement]]] = {}
    for time_ns, incident in updates:
        by_then = [
            f for name in incident.findings for f in by_id.get(name, ()) if f.time_ns <= time_ns
        ]
        detector = next(
            (member.detector for member in by_then if member.fault == incident.fault), "incidents"
        )
        alert = alerts.setdefault(incident.id, Alert(incident.id, detector))
        alert.detector, alert.cleared_ns = detector, incident.cleared_ns
        if not incident.cleared_ns:
            update = _statement(incident, by_then, time_ns)
            stated.setdefault(incident.id, []).append((incident, update))
    for name, updated in stated.items():
        newest, then = updated[-1][0], [statement for _, statement in updated]
        grown = (_grown(g, then) for i in newest.findings for g in by_id.get(i, ()) if g.active)
        for one in sorted((*then, *filter(None, grown)), key=lambda s: s.time_ns):
            alerts[name].add(one)
    return [alert for alert in alerts.values() if alert.statements]


def _statement(incident: Incident, members: list[Finding], time_ns: int) -> AlertStatement:
    """An update as known at its time; as strong as the strongest evidence of its severity, inf
    where there is none, as for a fault that is no number.
    """
    ranked = tuple(
        dict.fromkeys([entity_of(incident.root), *(entity_of(member.device) for member in members)])
    )
    newest = {m.id: m for m in members}.values()
    also = frozenset(
        m.fault for m in newest if m.active and m.device == incident.root and RANK[m.severity] > 0
    )
    severe = (
        strength_of(m) for m in members if m.active and RANK[m.severity] >= RANK[incident.severity]
    )
    times = Counter[str]()
    if incident.times > 1:
        for m in newest:
            times[m.fault] += m.times if m.device == incident.root else 0
    strength = max(severe, default=inf)
    return AlertStatement(
        time_ns, incident.severity, strength, ranked, incident.fault, also, _often(times)
    )


def _grown(finding: Finding, stated: list[AlertStatement]) -> AlertStatement | None:
    """Evidence that grew between two updates, as a copy of the update before with its strength;
    None where there is no update before, or one at the same time.
    """
    then = next((one for one in reversed(stated) if one.time_ns <= finding.time_ns), None)
    if then is None or then.time_ns == finding.time_ns:
        return None
    severity = min(finding.severity, then.severity, key=RANK.__getitem__)
    return replace(then, time_ns=finding.time_ns, severity=severity, strength=strength_of(finding))
