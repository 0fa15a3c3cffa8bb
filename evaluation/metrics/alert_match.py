"""What an alert states about a fault: statement by statement, each as known at its time,
and only what is new.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from evaluation.metrics.alerts import RANK, Alert, AlertStatement
from evaluation.metrics.classes import ANY, class_of
from evaluation.metrics.truth import Truth
from pipeline.clock import SECOND_NS
from pipeline.finding import Severity

# own: the right class, of the entity or of what contains it; secondary: a permitted symptom, or an
# early sign; misnamed: the right entity and another class; within: another root, with the findings
# about the entity below it; misplaced: the right class and a neighbour; before: all of it was
# reported before the onset, and is open.
Role = Literal["own", "secondary", "misnamed", "within", "misplaced", "before"]
# The role of an alert is the first of these that one of its statements has.
ROLES: tuple[Role, ...] = ("own", "secondary", "misnamed", "within", "misplaced", "before")

# An alert may still be explained this long after the fault ended: the time within which findings
# are joined to an incident.
SETTLE_NS = 600 * SECOND_NS


@dataclass(frozen=True, slots=True)
class AlertMatch:
    """An alert and its statements about one fault, each with its role, in the order of time."""

    alert: Alert
    truth: Truth
    statements: tuple[tuple[Role, AlertStatement], ...]

    @property
    def signs(self) -> list[AlertStatement]:
        """Statements before the onset that have the role ``own`` and are still open at the onset:
        early signs.
        """
        onset_ns = self.truth.onset_ns
        if self.truth.since_ns is None or 0 < self.alert.cleared_ns <= onset_ns:
            return []
        return [
            statement
            for role, statement in self.statements
            if statement.time_ns < onset_ns and role_of(statement, self.truth) == "own"
        ]

    @property
    def explained(self) -> int | None:
        """From when on the fault explains it, unix ns; long before that it does not."""
        return min(
            (one.time_ns for role, one in self.statements if role in ("own", "secondary")),
            default=None,
        )

    @property
    def role(self) -> Role:
        """The first of ROLES that one of its statements has."""
        return min((role for role, _ in self.statements), key=ROLES.index)

    def by(self, role: Role) -> list[AlertStatement]:
        """The statements in one role."""
        return [statement for each, statement in self.statements if each == role]

    def at(self, level: Severity, *roles: Role) -> int | None:
        """Time of the first statement with one of the roles at this severity or a higher one, unix
        ns; None if there is none.
        """
        return next(
            (
                statement.time_ns
                for role, statement in self.statements
                if role in roles and RANK[statement.severity] >= RANK[level]
            ),
            None,
        )


def match_alert(alert: Alert, truth: Truth) -> AlertMatch | None:
    """What an alert states about a fault, None where it is unrelated.

    A statement before the onset does not belong to the fault, unless the alert became as severe as
    the fault, or named more faults, since then; from ``since_ns`` on it is an early sign. A
    statement long after the end does not belong to it either.
    """
    statements = tuple(_statements(alert, truth))
    return AlertMatch(alert, truth, statements) if statements else None


def _statements(alert: Alert, truth: Truth) -> Iterator[tuple[Role, AlertStatement]]:
    least = RANK["record" if truth.severity == "record" else "ticket"]
    until_ns = max(truth.end_ns, truth.deadline_ns) + SETTLE_NS
    known: list[tuple[Role, AlertStatement]] = []
    for statement in alert.statements:
        role = role_of(statement, truth)
        if role is None or RANK[statement.severity] < least or statement.time_ns > until_ns:
            continue
        if statement.time_ns >= truth.onset_ns:
            if not any(
                role == one and _covers(earlier, statement, truth) for one, earlier in known
            ):
                yield role, statement
            continue
        known.append((role, statement))
        if truth.since_ns is not None and statement.time_ns >= truth.since_ns:
            yield ("secondary" if role == "own" else role), statement
        elif role == "own" and not 0 < alert.cleared_ns <= truth.onset_ns:
            yield "before", statement


def _covers(earlier: AlertStatement, now: AlertStatement, truth: Truth) -> bool:
    """Whether an earlier statement has all of this one: as severe as the fault requires, and every
    fault of the class, as often.
    """
    enough = min(RANK[now.severity], RANK[truth.severity])
    return RANK[earlier.severity] >= enough and _of_class(now, truth) <= _of_class(earlier, truth)


def _of_class(statement: AlertStatement, truth: Truth) -> set[tuple[str, int]]:
    """Its faults of the class of a truth, each with every number of times up to now."""
    times = dict(statement.times)
    return {
        (fault, number)
        for fault in statement.faults
        if class_of(fault) == truth.fault
        for number in range(1, times.get(fault, 1) + 1)
    }


def role_of(statement: AlertStatement, truth: Truth) -> Role | None:
    """Role of one statement for a fault, whatever its time; None where it is unrelated."""
    root, fault = statement.ranked[0], class_of(statement.fault)
    symptom = root in truth.secondary.get(fault, ())
    right = truth.fault in map(class_of, statement.faults)
    if (right and (root in truth.exact or (root in truth.wider and not symptom))) or (
        fault == ANY and root in truth.exact
    ):
        return "own"
    if symptom:
        return "secondary"
    if root in truth.exact:
        return "misnamed"
    if truth.exact & set(statement.ranked[1:]):
        return "within"
    return "misplaced" if fault == truth.fault and root in truth.near else None
