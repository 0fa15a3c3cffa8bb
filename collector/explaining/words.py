"""An incident as text: its root cause, the findings in order with their rules and numbers, and the
next step.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime

from collector.durations import span
from detectors import PAGES, prose_of
from pipeline.severities import shown_severity
from pipeline.short_ids import short
from pipeline.store.query.incident_history import FindingHistory, IncidentHistory, Row

WIDTH = 110
BOOK = "docs/detectors.md"
# facts that identify a device, where it has them
NAMES = ("index", "device", "pci_bus_id", "serial", "rack", "leaf")


def words(history: IncidentHistory, now: datetime) -> Iterator[str]:
    """Lines for a terminal."""
    if history.incident is not None:
        yield from _incident(history.incident, now)
        yield ""
    if not history.findings:
        yield "Its findings are no longer in the store."
    for number, finding in enumerate(history.findings, 1):
        yield from _finding(finding, f"{number}. " if len(history.findings) > 1 else "", now)
        yield ""
    for name in dict.fromkeys(finding.last["detector"] for finding in history.findings):
        yield from _rule(name)


def _incident(row: Row, now: datetime) -> Iterator[str]:
    yield f"Incident {short(row['id'])}: {row['summary']}"
    yield from _fields(
        (
            "device",
            f"{row['device_kind']} {row['device']}" + (f" in {row['host']}" if row["host"] else ""),
        ),
        ("class", f"{row['fault']}, {shown_severity(row['severity'])}"),
        ("open", _lasted(row["opened"], row["cleared"], now)),
        ("ended", row.get("ended") or ""),
        ("action", row["action"] + (f": {row['reason']}" if row["reason"] else "")),
        ("ack", _acknowledged(row)),
    )


def _finding(finding: FindingHistory, number: str, now: datetime) -> Iterator[str]:
    worst, last = finding.worst, finding.last
    facts = ", ".join(f"{name} {finding.facts[name]}" for name in NAMES if finding.facts.get(name))
    where = f"{last['device_kind']} {last['device']}" + (
        f" in {finding.host}" if finding.host else ""
    )
    yield f"{number}{worst['detector']}: {worst['summary']}"
    yield from _fields(
        ("finding", f"{short(last['id'])}, {worst['fault']}, {shown_severity(worst['severity'])}"),
        ("device", where + (f" ({facts})" if facts else "")),
        (
            "open",
            _lasted(last["onset"], last["said"] if last["phase"] == "cleared" else None, now),
        ),
        (
            "history",
            ", ".join(f"{row['phase']} {_clock(row['said'])}" for row in _shortened(finding)),
        ),
        ("numbers", _numbers(worst)),
        ("action", worst["action"]),
    )
    for line in worst["evidence"] or ():
        yield from _wrapped(line, "   - ")


def _rule(name: str) -> Iterator[str]:
    """How a detector works, if this version has it."""
    page = PAGES.get(name)
    if page is None:
        yield f"Detector {name}: not in this version."
        return
    yield f"How {name} works"
    for paragraph in prose_of(name):
        yield from _wrapped(paragraph.replace("``", ""), "   ")
    yield from _fields(
        ("rule", page.formula),
        ("sources", "; ".join(page.sources)),
        ("next", page.next_step),
        ("more", f"{BOOK}#{name}"),
    )
    yield ""


def _shortened(finding: FindingHistory) -> list[Row]:
    """The first two and last two reports; the repetitions in between are left out."""
    rows = list(finding.rows)
    return rows if len(rows) <= 4 else [*rows[:2], *rows[-2:]]


def _numbers(row: Row) -> str:
    if row["value"] is None:
        return ""
    expected = "" if row["expected"] is None else f", expected {row['expected']:g}"
    return f"{row['value']:g}{expected} {row['unit']}".rstrip()


def _acknowledged(row: Row) -> str:
    if row["acknowledged"] is None:
        return ""
    by = f" by {row['acknowledged_by']}" if row["acknowledged_by"] else ""
    return f"{_clock(row['acknowledged'])}{by}" + (f": {row['note']}" if row["note"] else "")


def _lasted(begin: datetime, end: datetime | None, now: datetime) -> str:
    lasted = span(((end or now) - begin).total_seconds())
    return (
        f"from {_clock(begin)} to {_clock(end)}, {lasted}"
        if end is not None
        else f"since {_clock(begin)}, for {lasted}"
    )


def _clock(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def _fields(*rows: tuple[str, str]) -> Iterator[str]:
    for name, text in rows:
        if text:
            yield from textwrap.wrap(
                text, WIDTH, initial_indent=f"   {name:9}", subsequent_indent=" " * 12
            )


def _wrapped(text: str, lead: str) -> list[str]:
    return textwrap.wrap(
        " ".join(text.split()), WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead)
    )
