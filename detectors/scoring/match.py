"""Alerts against truths: which fault each alert tells of, and what each fault got."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from detectors.scoring.alerts import RANK, Alert
from detectors.scoring.classes import ANY, class_of
from detectors.scoring.truth import LEVELS, Entity, Truth
from pipeline.finding import Severity

# own: the right class, of the entity or of what contains it; secondary: a symptom that may be told; misnamed: the right entity and
# another class; misplaced: the right class and a neighbour.
Role = Literal["own", "secondary", "misnamed", "misplaced"]

# An alert may still be explained this long after the fault ended: the time within which findings are joined to an incident.
SETTLE_NS = 600 * 10**9
NS = 1e9


@dataclass(frozen=True, slots=True)
class Evidence:
    """An own alert of sufficient severity: which detector said it, how long after the onset, how strong."""

    detector: str
    delay_s: float
    strength: float


@dataclass(frozen=True, slots=True)
class Case:
    """What one fault got. Delays are seconds from the onset, None = never; ``deadline_s`` is what they should be below.

    ``detected_s``: own class, sufficient severity. ``noticed_s``: any alert of it, whatever class. ``top1``, ``top3``, ``level``: who
    was blamed when it was detected in time, else None. ``cleared_s``: after the end of the fault, None = not (yet).
    ``watched``: the run went on until the deadline, so that a miss is a miss. ``evidence`` is what the operating curve is made of.
    """

    id: str
    fault: str
    severity: Severity
    entity: str
    deadline_s: float
    detected_s: float | None
    noticed_s: float | None
    top1: bool | None
    top3: bool | None
    level: bool | None
    duplicates: int
    secondaries: int
    misnamed: int
    misplaced: int
    flaps: int
    cleared_s: float | None
    clearable: bool
    watched: bool
    evidence: tuple[Evidence, ...]

    @property
    def in_time(self) -> bool:
        """Whether it counts as found: late is missed."""
        return self.detected_s is not None and self.detected_s <= self.deadline_s


def match(truths: Iterable[Truth], alerts: Sequence[Alert], until_ns: int) -> tuple[list[Case], list[Alert]]:
    """A case per truth, and the alerts that tell of none: the false ones. ``until_ns`` is the end of what was observed."""
    every = [(truth, _roles(truth, alerts)) for truth in truths]
    explained = {id(alert) for _, roles in every for role, alert in roles if role in ("own", "secondary")}
    # What tells of one fault, or of its very entity, says nothing about a neighbour that has another.
    taken = {id(alert) for truth, roles in every for role, alert in roles if _of_it(truth, role, alert)}
    cases = [
        _case(truth, [(r, a) for r, a in roles if _of_it(truth, r, a) or id(a) not in taken], until_ns) for truth, roles in every
    ]
    return cases, [alert for alert in alerts if id(alert) not in explained]


def _of_it(truth: Truth, role: Role, alert: Alert) -> bool:
    return role == "own" or alert.ranked[0] in truth.exact


def _roles(truth: Truth, alerts: Iterable[Alert]) -> list[tuple[Role, Alert]]:
    return [(role, alert) for alert in alerts if (role := role_of(alert, truth)) is not None]


def role_of(alert: Alert, truth: Truth) -> Role | None:
    """What an alert says about a fault, None where it has nothing to do with it.

    An alert that was told before the onset does not belong to it, unless it became as serious as the fault is since then; nor does
    one long after its end.
    """
    told = alert.at("record" if truth.severity == "record" else "ticket")
    if told is not None and told < truth.onset_ns:
        told = alert.at(truth.severity)
    if told is None or not truth.onset_ns <= told <= max(truth.end_ns, truth.deadline_ns) + SETTLE_NS:
        return None
    root, fault = alert.ranked[0], class_of(alert.fault)
    told_of = {fault, *map(class_of, alert.also)}
    if (truth.fault in told_of and (root in truth.exact or root in truth.wider)) or (fault == ANY and root in truth.exact):
        return "own"
    if root in truth.secondary.get(fault, ()):
        return "secondary"
    if root in truth.exact:
        return "misnamed"
    return "misplaced" if fault == truth.fault and root in truth.near else None


def _case(truth: Truth, roles: Sequence[tuple[Role, Alert]], until_ns: int) -> Case:
    own = [alert for role, alert in roles if role == "own"]
    told = [at for alert in own if (at := alert.at(truth.severity)) is not None]
    noticed = [at for role, alert in roles if role != "misplaced" and (at := alert.at(truth.severity)) is not None]
    deadline_s = (truth.deadline_ns - truth.onset_ns) / NS
    detected_s = (min(told) - truth.onset_ns) / NS if told else None
    blamed = _blamed(roles, truth) if detected_s is not None and detected_s <= deadline_s else ()
    keys = {(alert.detector, alert.ranked[0], alert.fault) for alert in own}
    cleared = [alert.cleared_ns for alert in own]
    return Case(
        id=truth.id,
        fault=truth.fault,
        severity=truth.severity,
        entity=truth.name,
        deadline_s=deadline_s,
        detected_s=detected_s,
        noticed_s=(min(noticed) - truth.onset_ns) / NS if noticed else None,
        top1=blamed[0] in truth.exact if blamed else None,
        top3=bool(truth.exact & set(blamed[:3])) if blamed else None,
        level=blamed[0] in truth.exact or blamed[0].kind in LEVELS[truth.kind] if blamed else None,
        duplicates=max(len(keys) - 1, 0),
        secondaries=sum(role == "secondary" for role, _ in roles),
        misnamed=sum(role == "misnamed" for role, _ in roles),
        misplaced=sum(role == "misplaced" for role, _ in roles),
        flaps=len(own) - len(keys),
        cleared_s=max(0.0, (max(cleared) - truth.end_ns) / NS) if own and all(cleared) else None,
        clearable=bool(own) and truth.end_ns < until_ns,
        watched=truth.deadline_ns <= until_ns,
        evidence=_evidence(own, truth),
    )


def _blamed(roles: Sequence[tuple[Role, Alert]], truth: Truth) -> tuple[Entity, ...]:
    """Everybody blamed by the deadline, as somebody would look then: what still stands first, the most serious first, then the earliest."""
    by_then = [(alert, [s for s in alert.said if s.time_ns <= truth.deadline_ns]) for _, alert in roles]
    told = [
        (alert, 0 < alert.cleared_ns <= truth.deadline_ns, -max(RANK[s.severity] for s in said), said[0].time_ns)
        for alert, said in by_then
        if said
    ]
    return tuple(dict.fromkeys(entity for alert, *_ in sorted(told, key=lambda t: t[1:]) for entity in alert.ranked))


def _evidence(own: Iterable[Alert], truth: Truth) -> tuple[Evidence, ...]:
    """Statements of sufficient severity, in the order of time."""
    found = [
        Evidence(alert.detector, (said.time_ns - truth.onset_ns) / NS, said.strength)
        for alert in own
        for said in alert.said
        if RANK[said.severity] >= RANK[truth.severity]
    ]
    return tuple(sorted(found, key=lambda e: e.delay_s))
