"""Open incidents as series: while they are open, without ids, and bounded."""

from __future__ import annotations

from dataclasses import replace

from pipeline.catalog import agent
from pipeline.exposition import Exposition
from pipeline.finding import Incident
from pipeline.frame import Device
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import START_NS, FakeClock, gpu, observed
from tests.pipeline.exposition.pages import families, samples

TOLD = Incident("5a2e", gpu(0), "xid/gpu", "page", "RESTART_BM", START_NS, (), "XID 79.")


def page(*incidents: Incident) -> Exposition:
    """A page after these were told."""
    exposition = Exposition(SelfMetrics(), clock=FakeClock())
    exposition.write(observed(FakeClock()), (), incidents)
    return exposition


def test_an_open_incident_is_a_series_that_names_whom_to_blame() -> None:
    """Root, class, severity, scope and action; no id, which would be a new series each time."""
    ((labels, value),) = samples(page(TOLD), "tocsin_incident_active").items()
    wanted = {"root_kind": "gpu", "root_device": gpu(0).id, "class": "xid/gpu", "severity": "page"}
    assert dict(labels) == wanted | {"scope": "node", "action": "RESTART_BM"}
    assert value == 1


def test_an_incident_that_ended_is_absent() -> None:
    """Not 0: absent."""
    ended = page(TOLD, replace(TOLD, cleared_ns=START_NS + 1000))
    assert agent.INCIDENT_ACTIVE.name not in families(ended)
    assert ended.incidents() == ()


def test_another_root_takes_the_place_of_the_first() -> None:
    """One series per incident at any time."""
    ((labels, _),) = samples(
        page(TOLD, replace(TOLD, root=Device("n1", "node", "n1"))), "tocsin_incident_active"
    ).items()
    assert dict(labels)["root_kind"] == "node"


def test_an_acknowledged_incident_has_a_series_beside_it() -> None:
    """With the labels that a rule needs to be quiet about it."""
    taken_on = page(TOLD, replace(TOLD, acknowledged_ns=START_NS))
    ((labels, _),) = samples(taken_on, "tocsin_incident_acknowledged").items()
    assert dict(labels) == {"root_kind": "gpu", "root_device": gpu(0).id, "class": "xid/gpu"}
    assert samples(page(TOLD), "tocsin_incident_acknowledged") == {}


def test_an_incident_that_happened_again_shows_how_often() -> None:
    """A rule alerts on it, as the series of the incident does not change."""
    again = page(replace(TOLD, times=3, again_ns=START_NS + 60 * 10**9))
    ((labels, times),) = samples(again, "tocsin_incident_occurrences").items()
    assert labels in samples(again, "tocsin_incident_active")
    assert times == 3
    assert samples(page(TOLD), "tocsin_incident_occurrences") == {}


def test_incidents_are_capped_and_the_gravest_are_shown() -> None:
    """Five hundred series at most; a page is among them though it came last, and
    the overflow is a number.
    """
    many = [replace(TOLD, id=str(n), root=gpu(n), severity="ticket") for n in range(600)]
    shown = page(*many, replace(TOLD, id="last", root=gpu(9999)))
    assert len(samples(shown, "tocsin_incident_active")) == 500
    assert samples(shown, "tocsin_incident_active", severity="page")
    assert list(samples(shown, "tocsin_incidents_overflow").values()) == [101.0]


def test_kept_incidents_are_bounded() -> None:
    """Thousands that never end do not fill the memory."""
    assert len(page(*(replace(TOLD, id=str(n)) for n in range(6000))).incidents()) == 5000


def test_what_was_open_before_a_restart_is_shown_from_the_start() -> None:
    """Before anything is read."""
    exposition = Exposition(SelfMetrics(), clock=FakeClock())
    exposition.resume((), (TOLD,))
    assert samples(exposition, "tocsin_incident_active", root_device=gpu(0).id)


def test_hostile_names_do_not_break_the_page() -> None:
    """Quotes, line ends and backslashes in a device's name are escaped."""
    hostile = 'a"b\\c\nd'
    ((labels, _),) = samples(
        page(replace(TOLD, root=Device("n1", "gpu", hostile))), "tocsin_incident_active"
    ).items()
    assert dict(labels)["root_device"] == hostile
