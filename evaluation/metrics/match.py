"""Alerts against truths: which fault each alert is about, and which alerts each fault got."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from evaluation.metrics.alert_match import SETTLE_NS, AlertMatch, match_alert
from evaluation.metrics.alerts import RANK, Alert, AlertStatement
from evaluation.metrics.truth import LEVELS, Entity, Truth
from pipeline.clock import SECOND_NS
from pipeline.finding import Severity


@dataclass(frozen=True, slots=True)
class Evidence:
    """A statement with the role ``own`` and sufficient severity: its detector, delay after the
    onset and strength.
    """

    detector: str
    delay_s: float
    strength: float


@dataclass(frozen=True, slots=True)
class Case:
    """The result for one fault.

    Delays are seconds from the onset, None = never; the goal is below ``deadline_s``.

    ``detected_s``: own class, sufficient severity. ``noticed_s``: any alert of it, whatever class.
    ``top1``, ``top3``, ``level``: whether the root is right when it was detected in time, else
    None. ``cleared_s``: after the end of the fault, None = not (yet). ``before``: alerts that
    reported exactly this before the onset and are open; ``signed``: whether early signs of the same
    severity were reported and open; ``within``: alerts with another root that contain the findings
    about it; ``too_loud``: whether a ticket-level fault paged. ``watched``: the run went on until
    the deadline, so that a miss is a miss. ``evidence`` is the input of the operating curve.
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
    before: int
    within: int
    signed: bool
    flaps: int
    too_loud: bool
    cleared_s: float | None
    clearable: bool
    watched: bool
    evidence: tuple[Evidence, ...]

    @property
    def in_time(self) -> bool:
        """Whether it counts as found: late is missed."""
        return self.detected_s is not None and self.detected_s <= self.deadline_s


def match(
    truths: Iterable[Truth], alerts: Sequence[Alert], until_ns: int
) -> tuple[list[Case], list[Alert]]:
    """A case per truth, and the alerts that match none: the false ones.

    ``until_ns`` is the end of what was observed.
    """
    every = [
        (truth, [one for alert in alerts if (one := match_alert(alert, truth)) is not None])
        for truth in truths
    ]
    explained: dict[int, int] = {}  # from when on
    for _, about in every:
        for one in about:
            if (since := one.explained) is not None:
                explained[id(one.alert)] = min(since, explained.get(id(one.alert), since))
    # An alert about one fault, or about its entity, is none about a neighbour with another fault.
    taken = {id(one.alert) for truth, about in every for one in about if _of_it(truth, one)}
    # A page is due where a fault requires one; the same statement may cover a lesser fault as well.
    due = {
        id(statement)
        for truth, about in every
        if truth.severity == "page"
        for one in about
        for statement in one.by("own")
    }
    cases = [
        _case(
            truth,
            [one for one in about if _of_it(truth, one) or id(one.alert) not in taken],
            _within(about),
            due,
            until_ns,
        )
        for truth, about in every
    ]
    return cases, [
        stray for alert in alerts if (stray := _stray(alert, explained.get(id(alert)))) is not None
    ]


def _stray(alert: Alert, explained_ns: int | None) -> Alert | None:
    """The statements of an alert before any fault explained it, None where there are none: evidence
    within minutes is merged.
    """
    if explained_ns is None:
        return alert
    early = [one for one in alert.statements if one.time_ns < explained_ns - SETTLE_NS]
    return replace(alert, statements=early) if early else None


def _of_it(truth: Truth, one: AlertMatch) -> bool:
    return one.role == "own" or any(
        statement.ranked[0] in truth.exact for _, statement in one.statements
    )


def _within(about: Iterable[AlertMatch]) -> int:
    """How many alerts contain the findings about an entity and have another root."""
    return sum(one.role == "within" for one in about)


def _case(
    truth: Truth, about: Sequence[AlertMatch], elsewhere: int, due: set[int], until_ns: int
) -> Case:
    roles = [one.role for one in about]
    own = [one for one in about if one.role == "own"]
    times = [
        statement.time_ns
        for one in own
        for statement in one.by("own")
        if RANK[statement.severity] >= RANK[truth.severity]
    ]
    noticed = [
        at
        for one in about
        if (at := one.at(truth.severity, "own", "secondary", "misnamed")) is not None
    ]
    detected_s = (min(times) - truth.onset_ns) / SECOND_NS if times else None
    deadline_s = (truth.deadline_ns - truth.onset_ns) / SECOND_NS
    ranked = _ranked(about, truth) if detected_s is not None and detected_s <= deadline_s else ()
    keys = {
        (one.alert.detector, first.ranked[0], first.fault)
        for one in own
        for first in one.by("own")[:1]
    }
    cleared = [one.alert.cleared_ns for one in own]
    return Case(
        id=truth.id,
        fault=truth.fault,
        severity=truth.severity,
        entity=truth.name,
        deadline_s=deadline_s,
        detected_s=detected_s,
        noticed_s=(min(noticed) - truth.onset_ns) / SECOND_NS if noticed else None,
        top1=ranked[0] in truth.exact if ranked else None,
        top3=bool(truth.exact & set(ranked[:3])) if ranked else None,
        level=ranked[0] in truth.exact or ranked[0].kind in LEVELS[truth.kind] if ranked else None,
        duplicates=max(len(keys) - 1, 0),
        secondaries=roles.count("secondary"),
        misnamed=roles.count("misnamed"),
        misplaced=roles.count("misplaced"),
        before=roles.count("before"),
        within=elsewhere,
        signed=any(
            RANK[sign.severity] >= RANK[truth.severity] for one in about for sign in one.signs
        ),
        flaps=len(own) - len(keys),
        too_loud=any(
            statement.severity == "page" != truth.severity and id(statement) not in due
            for one in own
            for statement in one.by("own")
        ),
        cleared_s=max(0.0, (max(cleared) - truth.end_ns) / SECOND_NS)
        if own and all(cleared)
        else None,
        clearable=bool(own) and truth.end_ns < until_ns,
        watched=truth.deadline_ns <= until_ns,
        evidence=_evidence(own, truth),
    )


def _ranked(about: Sequence[AlertMatch], truth: Truth) -> tuple[Entity, ...]:
    """Candidates for the root at the deadline, in the order of an operator's list: open alerts
    first, the most severe first, then the earliest.
    """
    by_then = [(one.alert, _until(one, truth.deadline_ns)) for one in about]
    rows = [
        (
            statements[-1],
            0 < alert.cleared_ns <= truth.deadline_ns,
            -max(RANK[s.severity] for s in statements),
            statements[0].time_ns,
        )
        for alert, statements in by_then
        if statements
    ]
    return tuple(
        dict.fromkeys(
            entity for last, *_ in sorted(rows, key=lambda row: row[1:]) for entity in last.ranked
        )
    )


def _until(one: AlertMatch, at_ns: int) -> list[AlertStatement]:
    """The statements of an alert by then, where any of them is about the fault."""
    if not any(s.time_ns <= at_ns and role != "before" for role, s in one.statements):
        return []
    return [s for s in one.alert.statements if s.time_ns <= at_ns]


def _evidence(own: Iterable[AlertMatch], truth: Truth) -> tuple[Evidence, ...]:
    """Statements of sufficient severity, in the order of time."""
    found = [
        Evidence(one.alert.detector, (s.time_ns - truth.onset_ns) / SECOND_NS, s.strength)
        for one in own
        for s in one.by("own")
        if RANK[s.severity] >= RANK[truth.severity]
    ]
    return tuple(sorted(found, key=lambda e: e.delay_s))
