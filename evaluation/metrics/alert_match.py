"""What an alert says about a fault: statement by statement, in the words of its own
time, and only what is news.
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

# own: the right class, of the entity or of what contains it; secondary: a symptom that may be told,
# or a sign of what comes; misnamed: the right entity and another class; within: somebody else is
# blamed, and what was found of the entity stands behind; misplaced: the right class and a
# neighbour; before: all of it had been told before the onset, and stands.
Role = Literal["own", "secondary", "misnamed", "within", "misplaced", "before"]
# What an alert is in all is the first of these.
ROLES: tuple[Role, ...] = ("own", "secondary", "misnamed", "within", "misplaced", "before")

# An alert may still be explained this long after the fault ended: the time within which findings
# are joined to an incident.
SETTLE_NS = 600 * SECOND_NS


@dataclass(frozen=True, slots=True)
class AlertMatch:
    """An alert, and those of its statements that say something of a fault, with what they
    say, in the order of time.
    """

    alert: Alert
    truth: Truth
    said: tuple[tuple[Role, AlertStatement], ...]

    @property
    def signs(self) -> list[AlertStatement]:
        """Statements that would have been its own, had the evidence been there: signs of what comes
        that still stand when it is.
        """
        onset_ns = self.truth.onset_ns
        if self.truth.since_ns is None or 0 < self.alert.cleared_ns <= onset_ns:
            return []
        return [
            said
            for role, said in self.said
            if said.time_ns < onset_ns and role_of(said, self.truth) == "own"
        ]

    @property
    def explained(self) -> int | None:
        """From when on it is explained by the fault, unix ns; what it said long before is not."""
        return min(
            (said.time_ns for role, said in self.said if role in ("own", "secondary")), default=None
        )

    @property
    def role(self) -> Role:
        """What it is in all."""
        return min((role for role, _ in self.said), key=ROLES.index)

    def by(self, role: Role) -> list[AlertStatement]:
        """The statements in one role."""
        return [said for each, said in self.said if each == role]

    def at(self, level: Severity, *roles: Role) -> int | None:
        """When it first said any of this at this severity or a higher one; None if never."""
        return next(
            (
                said.time_ns
                for role, said in self.said
                if role in roles and RANK[said.severity] >= RANK[level]
            ),
            None,
        )


def heard(alert: Alert, truth: Truth) -> AlertMatch | None:
    """What an alert says about a fault, None where it has nothing to do with it.

    What was told before the onset does not belong to it, unless it became as serious as the fault
    is, or told of more, since then; from ``since_ns`` on it is a sign of what comes. Nor does what
    is told long after the end.
    """
    said = tuple(_statements(alert, truth))
    return AlertMatch(alert, truth, said) if said else None


def _statements(alert: Alert, truth: Truth) -> Iterator[tuple[Role, AlertStatement]]:
    least = RANK["record" if truth.severity == "record" else "ticket"]
    until_ns = max(truth.end_ns, truth.deadline_ns) + SETTLE_NS
    known: list[tuple[Role, AlertStatement]] = []
    for said in alert.said:
        role = role_of(said, truth)
        if role is None or RANK[said.severity] < least or said.time_ns > until_ns:
            continue
        if said.time_ns >= truth.onset_ns:
            if not any(role == one and _covers(earlier, said, truth) for one, earlier in known):
                yield role, said
            continue
        known.append((role, said))
        if truth.since_ns is not None and said.time_ns >= truth.since_ns:
            yield ("secondary" if role == "own" else role), said
        elif role == "own" and not 0 < alert.cleared_ns <= truth.onset_ns:
            yield "before", said


def _covers(earlier: AlertStatement, now: AlertStatement, truth: Truth) -> bool:
    """Whether all that is said now of such a fault was known: as serious as the fault
    deserves, and every word.
    """
    enough = min(RANK[now.severity], RANK[truth.severity])
    return RANK[earlier.severity] >= enough and _of_class(now, truth) <= _of_class(earlier, truth)


def _of_class(said: AlertStatement, truth: Truth) -> set[str]:
    return {word for word in said.words if class_of(word) == truth.fault}


def role_of(said: AlertStatement, truth: Truth) -> Role | None:
    """What one statement says about a fault, whenever it was made."""
    root, fault = said.ranked[0], class_of(said.fault)
    symptom = root in truth.secondary.get(fault, ())
    right = truth.fault in map(class_of, said.words)
    if (right and (root in truth.exact or (root in truth.wider and not symptom))) or (
        fault == ANY and root in truth.exact
    ):
        return "own"
    if symptom:
        return "secondary"
    if root in truth.exact:
        return "misnamed"
    if truth.exact & set(said.ranked[1:]):
        return "within"
    return "misplaced" if fault == truth.fault and root in truth.near else None
