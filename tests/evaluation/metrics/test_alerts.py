"""Findings become alerts: one per episode, with the time of each statement."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest

from evaluation.metrics.alerts import alerts_of, alerts_of_incidents, strength_of
from evaluation.metrics.truth import Entity
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding, Incident, finding_id
from tests.fakes import gpu

FIRST = Finding(
    "thermal",
    gpu(0),
    "thermal",
    "onset",
    "ticket",
    5 * SECOND_NS,
    10 * SECOND_NS,
    "hot",
    value=4.0,
    expected=1.0,
)


def at(seconds: int, **changes: object) -> Finding:
    """An update of the same finding."""
    return replace(FIRST, time_ns=seconds * SECOND_NS, **changes)  # type: ignore[arg-type]  # any field may change


def test_an_episode_is_one_alert() -> None:
    """Onset, two updates and the clearance make one alert that was open from 10 to 40 s."""
    (alert,) = alerts_of(
        [FIRST, at(20, phase="ongoing"), at(30, phase="ongoing"), at(40, phase="cleared")]
    )
    assert (alert.at("ticket"), alert.cleared_ns, alert.root) == (
        10 * SECOND_NS,
        40 * SECOND_NS,
        Entity("gpu", gpu(0).id),
    )


def test_a_finding_that_comes_back_is_another_alert() -> None:
    """It pages twice, even where the id is the same."""
    assert len(alerts_of([FIRST, at(20, phase="cleared"), at(30)])) == 2


def test_a_clearance_without_an_onset_is_nothing() -> None:
    """After a restart an old finding may be cleared."""
    assert alerts_of([at(20, phase="cleared")]) == []


def test_strength_and_severity_are_kept_as_they_rise() -> None:
    """|value - expected| is 3 as a ticket at 10 s, 5 as a ticket at 20 s, 4 as a page at 30 s."""
    (alert,) = alerts_of(
        [FIRST, at(20, value=6.0), at(25, value=2.0), at(30, value=5.0, severity="page")]
    )
    assert (
        alert.at("ticket", 3.5),
        alert.at("ticket", 5.5),
        alert.at("page"),
        alert.at("page", 4.5),
    ) == (
        20 * SECOND_NS,
        None,
        30 * SECOND_NS,
        None,
    )
    assert (alert.strength("ticket"), alert.strength("page"), alert.severity) == (5.0, 4.0, "page")


@pytest.mark.parametrize(
    ("value", "expected", "strength"),
    [(2.0, 5.0, 3.0), (nan, 1.0, inf), (-7.0, nan, 7.0), (0.0, 0.0, 0.0)],
)
def test_strength_is_the_distance_from_what_was_expected(
    value: float, expected: float, strength: float
) -> None:
    """A fault that is not a number cannot be stronger; one without an expectation is
    as strong as it is large.
    """
    assert strength_of(at(10, value=value, expected=expected)) == strength


def test_an_incident_ranks_its_root_before_its_members_as_known_at_the_time() -> None:
    """Re-rooted at 20 s from GPU 0 to GPU 1: at 10 s it names GPU 0, at 20 s GPU 1 first,
    GPU 0 second.
    """
    second = replace(FIRST, device=gpu(1))
    ids = tuple(finding_id(f.detector, f.device, f.onset_ns) for f in (FIRST, second))
    early = Incident("i", gpu(0), "thermal", "page", "NONE", 10 * SECOND_NS, ids[:1], "hot")
    late = replace(early, root=gpu(1), findings=ids)
    (alert,) = alerts_of_incidents(
        [(10 * SECOND_NS, early), (20 * SECOND_NS, late)], [FIRST, second]
    )
    assert [
        (s.time_ns // SECOND_NS, [entity.id for entity in s.ranked]) for s in alert.statements
    ] == [
        (10, [gpu(0).id]),
        (20, [gpu(1).id, gpu(0).id]),
    ]


def test_an_incident_has_every_fault_of_its_root_that_alerts() -> None:
    """The XID of a GPU with its error counter; not what is only recorded, nor the faults of other
    devices.
    """
    xid = replace(FIRST, detector="xid", fault="xid/memory")
    kept, other = (
        replace(FIRST, detector="k", fault="kept", severity="record"),
        replace(FIRST, device=gpu(1), fault="straggler"),
    )
    members = [FIRST, xid, kept, other]
    incident = Incident(
        "i",
        gpu(0),
        "thermal",
        "ticket",
        "NONE",
        10 * SECOND_NS,
        tuple(f.id for f in members),
        "hot",
    )
    (alert,) = alerts_of_incidents([(10 * SECOND_NS, incident)], members)
    assert alert.statements[-1].also == {FIRST.fault, "xid/memory"}


def test_what_was_over_by_then_is_not_reported_again() -> None:
    """The XID of the root ended at 15 s: the update at 20 s has the counter alone."""
    xid = replace(FIRST, detector="xid", fault="xid/memory")
    incident = Incident(
        "i", gpu(0), "thermal", "ticket", "NONE", 10 * SECOND_NS, (FIRST.id, xid.id), "hot"
    )
    findings = [FIRST, xid, replace(xid, phase="cleared", time_ns=15 * SECOND_NS)]
    (alert,) = alerts_of_incidents(
        [(10 * SECOND_NS, incident), (20 * SECOND_NS, replace(incident, severity="page"))], findings
    )
    assert [s.also for s in alert.statements] == [{"thermal", "xid/memory"}, {"thermal"}]


def test_an_incident_is_as_strong_as_its_evidence_and_its_detector_s() -> None:
    """Reported at 10 s by a finding 3 above what was expected; at 25 s the same finding has 5,
    though the incident had no update.
    """
    name = FIRST.id
    incident = Incident("i", gpu(0), "thermal", "ticket", "NONE", 10 * SECOND_NS, (name,), "hot")
    (alert,) = alerts_of_incidents(
        [(10 * SECOND_NS, incident)], [FIRST, at(25, phase="ongoing", value=6.0)]
    )
    assert alert.detector == "thermal"
    assert [(s.time_ns // SECOND_NS, s.severity, s.strength) for s in alert.statements] == [
        (10, "ticket", 3.0),
        (25, "ticket", 5.0),
    ]


def test_an_update_is_not_repeated_with_the_root_of_the_one_before() -> None:
    """GPU 0 at 10 s; at 20 s GPU 1 is found and the incident is its: the last root of that moment
    is GPU 1.
    """
    second = replace(at(20), device=gpu(1), onset_ns=20 * SECOND_NS)
    early = Incident("i", gpu(0), "thermal", "ticket", "NONE", 10 * SECOND_NS, (FIRST.id,), "hot")
    late = replace(early, root=gpu(1), findings=(FIRST.id, second.id))
    (alert,) = alerts_of_incidents(
        [(10 * SECOND_NS, early), (20 * SECOND_NS, late)], [FIRST, second]
    )
    assert alert.root == Entity("gpu", gpu(1).id)


def test_an_incident_without_findings_has_no_number() -> None:
    """A node with many small faults: no single one is the reason."""
    lemon = Incident("i", gpu(0), "lemon", "ticket", "RUN_FIELDDIAG", 10 * SECOND_NS, (), "Again.")
    (alert,) = alerts_of_incidents(
        [(10 * SECOND_NS, lemon), (99 * SECOND_NS, replace(lemon, cleared_ns=99 * SECOND_NS))], []
    )
    assert (alert.detector, alert.strength("ticket"), alert.cleared_ns) == (
        "incidents",
        inf,
        99 * SECOND_NS,
    )


def test_an_incident_that_ended_as_it_opened_is_no_alert() -> None:
    """Eleven devices have the same fault in one reading: the incidents of ten end as part of the
    first, so that none of them is an alert.
    """
    part = Incident(
        "i",
        gpu(0),
        "thermal",
        "ticket",
        "NONE",
        10 * SECOND_NS,
        (FIRST.id,),
        "hot",
        cleared_ns=10 * SECOND_NS,
    )
    assert alerts_of_incidents([(10 * SECOND_NS, part)], [FIRST]) == []
