"""Alerts against truths: which fault each alert tells of, and what each fault got."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from evaluation.metrics.alert_match import SETTLE_NS, AlertMatch, heard
from evaluation.metrics.alerts import RANK, Alert, AlertStatement
from evaluation.metrics.truth import LEVELS, Entity, Truth
from pipeline.clock import SECOND_NS
from pipeline.finding import Severity


@dataclass(frozen=True, slots=True)
class Evidence:
    """An own statement of sufficient severity: which detector said it, how long
    after the onset, how strong.
    """

    detector: str
    delay_s: float
    strength: float


@dataclass(frozen=True, slots=True)
class Case:
    """What one fault got.

    Delays are seconds from the onset, None = never; ``deadline_s`` is what they should be below.

    ``detected_s``: own class, sufficient severity. ``noticed_s``: any alert of it, whatever class.
    ``top1``, ``top3``, ``level``: who was blamed when it was detected in time, else None.
    ``cleared_s``: after the end of the fault, None = not (yet). ``before``: alerts that had told of
    the very same before the onset and was open; ``signed``: whether its signs had been told as
    loudly, and were open; ``within``: alerts that blame somebody else and hold what was found of
    it; ``too_loud``: whether somebody was paged for what is a ticket. ``watched``: the run went on
    until the deadline, so that a miss is a miss. ``evidence`` is what the operating curve is made
    of.
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
    """A case per truth, and the alerts that tell of none: the false ones.

    ``until_ns`` is the end of what was observed.
    """
    every = [
        (truth, [one for alert in alerts if (one := heard(alert, truth)) is not None])
        for truth in truths
    ]
    explained: dict[int, int] = {}  # from when on
    for _, about in every:
        for one in about:
            if (since := one.explained) is not None:
                explained[id(one.alert)] = min(since, explained.get(id(one.alert), since))
    # What tells of one fault, or of its very entity, says nothing about a
    # neighbour that has another.
    taken = {id(one.alert) for truth, about in every for one in about if _of_it(truth, one)}
    # A page is due where a fault deserves one; the same statement may tell of
    # a lesser fault beside it.
    due = {
        id(said)
        for truth, about in every
        if truth.severity == "page"
        for one in about
        for said in one.by("own")
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
    """What an alert had said before any fault explained it, None where that is nothing: evidence
    within minutes is joined.
    """
    if explained_ns is None:
        return alert
    said = [one for one in alert.said if one.time_ns < explained_ns - SETTLE_NS]
    return replace(alert, said=said) if said else None


def _of_it(truth: Truth, one: AlertMatch) -> bool:
    return one.role == "own" or any(said.ranked[0] in truth.exact for _, said in one.said)


def _within(about: Iterable[AlertMatch]) -> int:
    """How many alerts hold what was found of an entity and blame somebody else, rightly or not."""
    return sum(one.role == "within" for one in about)


def _case(
    truth: Truth, about: Sequence[AlertMatch], elsewhere: int, due: set[int], until_ns: int
) -> Case:
    roles = [one.role for one in about]
    own = [one for one in about if one.role == "own"]
    told = [
        said for one in own for said in one.by("own") if RANK[said.severity] >= RANK[truth.severity]
    ]
    noticed = [
        at
        for one in about
        if (at := one.at(truth.severity, "own", "secondary", "misnamed")) is not None
    ]
    detected_s = (min(said.time_ns for said in told) - truth.onset_ns) / SECOND_NS if told else None
    deadline_s = (truth.deadline_ns - truth.onset_ns) / SECOND_NS
    blamed = _blamed(about, truth) if detected_s is not None and detected_s <= deadline_s else ()
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
        top1=blamed[0] in truth.exact if blamed else None,
        top3=bool(truth.exact & set(blamed[:3])) if blamed else None,
        level=blamed[0] in truth.exact or blamed[0].kind in LEVELS[truth.kind] if blamed else None,
        duplicates=max(len(keys) - 1, 0),
        secondaries=roles.count("secondary"),
        misnamed=roles.count("misnamed"),
        misplaced=roles.count("misplaced"),
        before=roles.count("before"),
        within=elsewhere,
        signed=any(
            RANK[said.severity] >= RANK[truth.severity] for one in about for said in one.signs
        ),
        flaps=len(own) - len(keys),
        too_loud=any(
            said.severity == "page" != truth.severity and id(said) not in due
            for one in own
            for said in one.by("own")
        ),
        cleared_s=max(0.0, (max(cleared) - truth.end_ns) / SECOND_NS)
        if own and all(cleared)
        else None,
        clearable=bool(own) and truth.end_ns < until_ns,
        watched=truth.deadline_ns <= until_ns,
        evidence=_evidence(own, truth),
    )


def _blamed(about: Sequence[AlertMatch], truth: Truth) -> tuple[Entity, ...]:
    """Everybody blamed by the deadline, as somebody would look then: what still stands first, the
    most serious first, then the earliest.
    """
    by_then = [(one.alert, _until(one, truth.deadline_ns)) for one in about]
    told = [
        (
            said[-1],
            0 < alert.cleared_ns <= truth.deadline_ns,
            -max(RANK[s.severity] for s in said),
            said[0].time_ns,
        )
        for alert, said in by_then
        if said
    ]
    return tuple(
        dict.fromkeys(
            entity for last, *_ in sorted(told, key=lambda t: t[1:]) for entity in last.ranked
        )
    )


def _until(one: AlertMatch, at_ns: int) -> list[AlertStatement]:
    """All that an alert had said by then, where any of it was about the fault."""
    if not any(said.time_ns <= at_ns and role != "before" for role, said in one.said):
        return []
    return [said for said in one.alert.said if said.time_ns <= at_ns]


def _evidence(own: Iterable[AlertMatch], truth: Truth) -> tuple[Evidence, ...]:
    """Statements of sufficient severity, in the order of time."""
    found = [
        Evidence(one.alert.detector, (said.time_ns - truth.onset_ns) / SECOND_NS, said.strength)
        for one in own
        for said in one.by("own")
        if RANK[said.severity] >= RANK[truth.severity]
    ]
    return tuple(sorted(found, key=lambda e: e.delay_s))
