"""Which incidents of a cluster have a series, and so alert."""

from __future__ import annotations

from gateway.incident_series import incident_series
from pipeline.exposition.findings import MAX_SHOWN
from pipeline.finding import Incident, Severity
from pipeline.frame import Device


def incident(number: int, severity: Severity = "ticket", opened_ns: int = 1000) -> Incident:
    """An open one about a GPU of its own."""
    gpu = Device(f"n{number}", "gpu", f"GPU-{number}")
    return Incident(f"{number}-{severity}", gpu, "ecc", severity, "NONE", opened_ns, (), "Errors.")


def test_in_a_storm_pages_are_shown_before_tickets() -> None:
    """However many tickets opened before them; how many are left out is counted."""
    tickets = [incident(number) for number in range(MAX_SHOWN + 20)]
    pages = [incident(number, "page", 2000) for number in range(1000, 1005)]
    shown = incident_series([*tickets, *pages])
    assert (len(shown.rows), shown.overflow) == (MAX_SHOWN, 25)
    assert {*pages} <= {*shown.incidents}


def test_what_opened_first_is_shown_first() -> None:
    """So that those that alert already go on when more come."""
    old = [incident(number, opened_ns=1000 + number) for number in range(MAX_SHOWN)]
    before = incident_series(old)
    after = incident_series([incident(9999, opened_ns=9999), *old])
    assert after.rows == before.rows
    assert after.overflow == 1


def test_incidents_with_the_same_labels_are_one_series() -> None:
    """Both alert by it."""
    first, second = incident(1), incident(1, opened_ns=2000)
    shown = incident_series([second, first])
    assert (len(shown.rows), shown.overflow) == (1, 0)
    assert shown.incidents == [first, second]


def test_a_record_has_no_series() -> None:
    """Nobody is to be alerted."""
    assert incident_series([incident(1, "record")]) == ({}, 0)
