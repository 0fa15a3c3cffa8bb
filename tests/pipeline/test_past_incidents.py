"""Incidents of the last day that are over, and findings that ended."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pipeline.clock import SECOND_NS
from pipeline.finding import Finding, Incident
from pipeline.past_incidents import MAX_ENDED, MAX_FINDINGS, MAX_INCIDENTS, PastIncidents
from tests.fakes import START_NS, gpu

FOUND = Finding("d", gpu(0), "xid", "onset", "page", START_NS, START_NS, "It left.")
OPEN = Incident("7d82", gpu(0), "xid", "page", "NONE", START_NS, (FOUND.id,), "It left.")
HOUR_NS = 3600 * SECOND_NS


def over(finding: Finding = FOUND, after_s: int = 60) -> Finding:
    """A finding that ended so long after its onset."""
    return replace(finding, phase="cleared", time_ns=finding.onset_ns + after_s * SECOND_NS)


def closed(incident: Incident = OPEN, after_s: int = 600) -> Incident:
    """An incident that ended so long after it opened."""
    ended_ns = incident.opened_ns + after_s * SECOND_NS
    return replace(incident, cleared_ns=ended_ns, ended="It is read again.")


def test_an_incident_that_ended_is_kept_with_its_findings_for_a_day() -> None:
    """Not longer, and not while it is open."""
    past = PastIncidents()
    past.take([FOUND], [OPEN])
    assert past.incidents(START_NS) == []
    past.take([over()], [])
    past.take([], [closed()])
    (one,) = past.incidents(START_NS + 2 * HOUR_NS)
    assert one.incident == closed()
    assert [(found.id, found.phase) for found in one.findings] == [(FOUND.id, "cleared")]
    assert past.incidents(START_NS + 25 * HOUR_NS) == []


def test_the_newest_ended_first() -> None:
    """Whichever opened first."""
    past = PastIncidents()
    later = replace(OPEN, id="7d83")
    past.take([], [closed(later, 900), closed()])
    assert [one.incident.id for one in past.incidents(START_NS)] == ["7d83", "7d82"]


def test_what_opens_again_is_not_over() -> None:
    """A finding and an incident that are reported as open are forgotten here."""
    past = PastIncidents()
    past.take([over()], [closed()])
    past.take([FOUND], [OPEN])
    assert (past.ended([FOUND.id]), past.incidents(START_NS)) == ([], [])


@pytest.mark.slow
def test_a_storm_costs_bounded_memory() -> None:
    """Of 2,000 findings and incidents the newest are kept, of an incident the gravest."""
    past = PastIncidents()
    found = [replace(FOUND, onset_ns=START_NS + n * 1000) for n in range(2000)]
    found[1500] = replace(found[1500], severity="record")
    past.take(map(over, found), [])
    ids = tuple(one.id for one in found)
    assert len(past.ended(ids)) == MAX_ENDED
    past.take([], [closed(replace(OPEN, id=f"{n:04}", findings=ids)) for n in range(2000)])
    kept = past.incidents(START_NS)
    assert len(kept) == MAX_INCIDENTS
    assert {len(one.findings) for one in kept} == {MAX_FINDINGS}


def test_a_restart_forgets_nothing() -> None:
    """What the judge's state keeps as JSON is the same afterwards."""
    past = PastIncidents()
    past.take([over()], [closed()])
    again = PastIncidents.of(json.loads(json.dumps(past.document())))
    assert again.document() == past.document()
    assert [one.incident for one in again.incidents(START_NS)] == [closed()]


@pytest.mark.parametrize("wrong", [{"ended": [["a"]]}, {"incidents": [[["a"], []]]}, {"ended": 3}])
def test_what_is_no_such_state_is_refused(wrong: dict[str, object]) -> None:
    """Whole."""
    with pytest.raises((TypeError, ValueError, KeyError)):
        PastIncidents.of(wrong)
