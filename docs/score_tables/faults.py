"""Every scenario with faults, the healthy ones, and what was missed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from evaluation.runs.run import OURS, SHIPPED
from score_tables.cells import Row, duration, rounded_down, table_of, two_digits

FAULT_COLUMNS = (
    "Scenario", "Class", "Magnitude", "Scope", "In time", "Lower bound", "Default",
    "Correct device", "Delay p50, p90, p99", "Cleared after, p50", "Not cleared", "Duplicates",
    "Too severe", "GPU-months", "False pages", "False tickets",
)  # fmt: skip


def faults(report: Mapping[str, Any]) -> Iterator[str]:
    """Every scenario with faults, at each magnitude and horizon."""
    yield from table_of(FAULT_COLUMNS, fault_rows(report))


def fault_rows(report: Mapping[str, Any]) -> Iterator[Row]:
    """Its rows: agents alone first."""
    shipped = {
        key_of(row): row["recall"] for row in report["scenarios"] if row["contestant"] == SHIPPED
    }
    for scope, row in product(("node", "fleet"), report["scenarios"]):
        if row["contestant"] == OURS and row["scope"] == scope:
            yield _fault(row, shipped.get(key_of(row)))


def key_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """What a row of the report is of: scenario, magnitude, horizon."""
    return row["scenario"], row["magnitude"], row["scope"]


def _fault(row: Mapping[str, Any], shipped: Mapping[str, Any] | None) -> Row:
    found, blame, delay, clear = (
        row["recall"],
        row["attribution"]["top1"],
        row["delay_s"],
        row["clear_s"],
    )
    return (
        row["scenario"],  ", ".join(row["faults"]), row["magnitude"], row["scope"],
        f"{found['hits']}/{found['of']}", rounded_down(found["low95"]), (
            f"{shipped['hits']}/{shipped['of']}"
        ) if shipped else "-",
        (
            f"{blame['hits']}/{blame['of']}"
        ), ", ".join(duration(delay[name]) for name in ("p50", "p90", "p99")),
        duration(clear["p50"]), row["not_cleared"], two_digits(row[(
            "duplicates_per_incident"
        )]), row["too_loud"],
        f"{row['gpu_months']:.0f}", row["stray_pages"], row["stray_tickets"],
    )  # fmt: skip


def strata(report: Mapping[str, Any]) -> Iterator[str]:
    """Stalls by the duration of the job's checkpoints, which resemble stalls."""
    rows = [row for row in report["strata"] if row["contestant"] == OURS]
    cells = [(row["recall"], row["delay_s"]) for row in rows]
    yield from table_of(
        ("Scenario", "Magnitude", "Scope", (
            "Checkpoints up to"
        ), "In time", "Lower bound", "Delay p50, p90"),
        (
            (
                row["scenario"], row["magnitude"], row["scope"], duration(row[(
                    "checkpoint_s_at_most"
                )]),
                f"{found['hits']}/{found['of']}", rounded_down(found["low95"]), (
                    f"{duration(delay['p50'])}, {duration(delay['p90'])}"
                ),
            )
            for row, (found, delay) in zip(rows, cells, strict=True)
        ),
    )  # fmt: skip


def healthy(report: Mapping[str, Any]) -> Iterator[str]:
    """What was false in each healthy scenario: agents alone as installed, and the fleet with all
    detectors alerting.
    """
    shown = {
        (row["scope"], row["scenario"]): row
        for row in report["healthy"]
        if (row["scope"], row["contestant"]) in (("node", SHIPPED), ("fleet", OURS))
    }
    scenarios = sorted({scenario for _, scenario in shown})
    yield from table_of(
        ("Healthy scenario", *(f"{what}, {who}" for who in ("agents alone", "fleet")
         for what in ("GPU-months", "false pages", "false tickets", "by detector"))),
        [
            (
                scenario,
                *(
                    cell
                    for scope in ("node", "fleet")
                    for cell in _false_of(shown.get((scope, scenario)))
                ),
            )
            for scenario in scenarios
        ],
    )  # fmt: skip


def _false_of(row: Mapping[str, Any] | None) -> Row:
    if row is None:
        return ("-", "-", "-", "-")
    counts = Counter(row["pages"]["by_detector"]) + Counter(row["tickets"]["by_detector"])
    return (
        f"{row['gpu_months']:.0f}",
        *(row[name]["of_all"]["count"] for name in ("pages", "tickets")),
        ", ".join(f"{n} {name}" for name, n in counts.most_common()) or "-",
    )


def misses(report: Mapping[str, Any]) -> Iterator[str]:
    """The number of missed cases by scenario and cause."""
    count: dict[tuple[str, ...], int] = {}
    for miss in report["misses"]:
        how = "late" if miss["cause"].startswith("late") else miss["cause"]
        key = miss["scenario"], miss["magnitude"], miss["scope"], how
        count[key] = count.get(key, 0) + 1
    yield from table_of(
        ("Scenario", "Magnitude", "Scope", "Cause", "Cases"),
        ((*key, n) for key, n in sorted(count.items())),
    )
