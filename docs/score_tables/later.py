"""Runs of later revisions than that of the complete suite."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evaluation.runs.run import OURS
from score_tables.cells import Row, table_of
from score_tables.faults import FAULT_COLUMNS, fault_rows


def sums(report: Mapping[str, Any]) -> Iterator[str]:
    """Sums over all runs of later revisions."""
    runs = report.get("later", ())
    ours = [row for run in runs for row in run["scenarios"] if row["contestant"] == OURS]
    healthy = [row for run in runs for row in run["healthy"] if row["contestant"] == OURS]
    found = [(row["recall"]["hits"], row["recall"]["of"]) for row in ours]
    first = [(row["attribution"]["top1"]["hits"], row["attribution"]["top1"]["of"]) for row in ours]
    months = sum(row["gpu_months"] for row in healthy)
    pages, tickets = (
        sum(row[name]["of_all"]["count"] for row in healthy) for name in ("pages", "tickets")
    )
    faulty = sum(row["gpu_months"] for row in ours)
    strays = sum(row["stray_pages"] for row in ours)
    yield from table_of(
        ("Figure", "Value"),
        (
            ("faults found in time", _of(found)),
            ("correct device first, of those found in time", _of(first)),
            ("false pages in healthy runs", f"{pages} in {months:,.0f} GPU-months"),
            ("false tickets in healthy runs", f"{tickets}"),
            ("false pages in runs with faults", f"{strays} in {faulty:,.0f} GPU-months"),
        ),
    )


def _of(pairs: Sequence[tuple[int, int]]) -> str:
    hits, of = (sum(column) for column in zip(*pairs, strict=True)) if pairs else (0, 0)
    return f"{hits}/{of}" + (f", {hits / of:.3f}" if of else "")


def faults(report: Mapping[str, Any]) -> Iterator[str]:
    """Every scenario with faults, with commit and seeds."""
    rows: list[Row] = [
        (run["commit"], _seeds(run, str(row[0])), *row)
        for run in report.get("later", ())
        for row in fault_rows(run)
    ]
    yield from table_of(
        ("Commit", "Seeds", *FAULT_COLUMNS), sorted(rows, key=lambda row: str(row[2]))
    )


def healthy(report: Mapping[str, Any]) -> Iterator[str]:
    """Every healthy scenario, with commit and seeds."""
    rows = [
        (
            run["commit"],
            _seeds(run, row["scenario"]),
            row["scenario"],
            f"{row['gpu_months']:.0f}",
            row["pages"]["of_all"]["count"],
            row["tickets"]["of_all"]["count"],
            ", ".join(
                f"{n} {name}"
                for part in ("pages", "tickets")
                for name, n in row[part]["by_detector"].items()
            ),
        )
        for run in report.get("later", ())
        for row in run["healthy"]
        if row["contestant"] == OURS
    ]
    head = (
        "Commit", "Seeds", "Healthy scenario", "GPU-months", "False pages", "False tickets",
        "By detector",
    )  # fmt: skip
    yield from table_of(head, sorted(rows, key=lambda row: str(row[2])))


def misses(report: Mapping[str, Any]) -> Iterator[str]:
    """The number of missed cases by commit, scenario and cause."""
    count: dict[tuple[str, str, str], int] = {}
    for run in report.get("later", ()):
        for miss in run["misses"]:
            late = miss["cause"].startswith("late")
            key = run["commit"], miss["scenario"], "late" if late else miss["cause"]
            count[key] = count.get(key, 0) + 1
    yield from table_of(
        ("Commit", "Scenario", "Cause", "Cases"),
        ((*key, n) for key, n in sorted(count.items(), key=lambda one: one[0][1:])),
    )


def _seeds(run: Mapping[str, Any], scenario: str) -> str:
    return ", ".join(map(str, run["seeds"][scenario]))
