"""Agents alone, which is what ships, and which detectors the result lets alert."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from detectors.paging import PROVED
from evaluation.runs.by_detector import ALERTS, SHADOW
from score_tables.cells import rounded_down, table_of


def installed(report: Mapping[str, Any]) -> Iterator[str]:
    """Agents alone, as they are installed, and with all detectors paging: what ships."""
    node = report["summary"]["node"]
    installed = node["as_shipped"]
    yield from table_of(
        ("Figure", "Default configuration", "All detectors page"),
        [
            (
                "healthy GPU-months",
                *(f"{part['healthy_gpu_months']:,.1f}" for part in (installed, node)),
            ),
            *(
                (f"false {what} per GPU-month", *(_false(part, what) for part in (installed, node)))
                for what in ("pages", "tickets")
            ),
            *(
                (f"{name}, in time", *(_in_time(part, name) for part in (installed, node)))
                for name in node["recall_by_class"]
            ),
        ],
    )


def released(report: Mapping[str, Any]) -> Iterator[str]:
    """Which detectors the result lets alert, beside what ships."""
    yield from table_of(
        ("Detector", "Scenarios", "In time", "At least", "False pages, at most a GPU-month",
         "False tickets, at most a GPU-month", "Decision", "Lacking", "Default"),
        (
            (row["detector"], ", ".join(row["scenarios"]) or "-",
             f"{row['recall']['hits']}/{row['recall']['of']}",
             rounded_down(row["recall"]["low95"]) if row["recall"]["of"] else "-",
             _false_of(row["false_pages"]), _false_of(row["false_tickets"]), row["decision"],
             "; ".join(row["lacking"]) or "-",
             ALERTS if row["detector"] in PROVED else SHADOW)
            for row in report["detectors"]
        ),
    )  # fmt: skip


def _false_of(rate: Mapping[str, Any]) -> str:
    return f"{rate['count']}; {rate['high95']:.2g}" if rate["rate"] is not None else "-"


def _false(part: Mapping[str, Any], what: str) -> str:
    rate = part["false_alarms"][what]["of_all"]
    return f"{rate['count']}; at most {rate['high95']:.2g}" if rate["rate"] is not None else "-"


def _in_time(part: Mapping[str, Any], name: str) -> str:
    found = part["recall_by_class"].get(name)
    return (
        f"{found['hits']}/{found['of']}, at least {rounded_down(found['low95'])}" if found else "-"
    )
