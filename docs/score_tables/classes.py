"""Tocsin beside every baseline, class by class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from evaluation.runs.report import SAME_RUNS
from evaluation.runs.run import OURS
from score_tables.cells import rate_of, rounded_down, table_of

BUDGET = 0.02  # false tickets per GPU-month: what the design allows


def classes(report: Mapping[str, Any]) -> Iterator[str]:
    """Tocsin and every baseline: recall per class, false alarms per class and in total."""
    summary = report["summary"]["fleet"]
    own = {
        "Tocsin, default configuration": summary.get("as_shipped"),
        "Tocsin, in the baselines' runs": summary.get("same_runs"),
    }
    own["Tocsin, each agent alone"] = report["summary"].get("node")
    who = {
        "Tocsin": summary,
        **{name: figures for name, figures in own.items() if figures},
        **summary["baselines"],
    }
    classes = sorted(summary["recall_by_class"])
    rows = []
    for name, figures in who.items():
        false = [
            rate_of(figures["false_alarms"][severity]["of_all"])
            for severity in ("pages", "tickets")
        ]
        cells = [
            _cell(figures["recall_by_class"].get(c), figures["false_alarms_by_class"].get(c))
            for c in classes
        ]
        rows.append((name, f"{figures['healthy_gpu_months']:.0f}", *false, *cells))
    yield from table_of(
        (
            "Candidate",
            "healthy GPU-months",
            "false pages per month",
            "false tickets per month",
            *classes,
        ),
        rows,
    )


def _cell(found: Mapping[str, Any] | None, false: Mapping[str, Any] | None) -> str:
    if found is None or false is None or not found["of"]:
        return "-"
    return (
        f"{found['hits']}/{found['of']} "
        f"({rounded_down(found['low95'])}-{found['high95']:.2f}); {rate_of(false)}"
    )


def budgets(report: Mapping[str, Any]) -> Iterator[str]:
    """Recall of Tocsin and the best baseline at one budget of false alarms,
    each at its best limits.
    """
    curves = [row for row in report["curves"] if row["scope"] == "fleet"]
    found: dict[tuple[str, str], Mapping[str, Any]] = {
        (row["class"], row["contestant"]): point["recall"]
        for row in curves
        for point in row["points"]
        if point["budget_per_month"] == BUDGET
    }
    rows = []
    for fault in sorted({fault for fault, _ in found}):
        theirs = {
            who: share
            for (of, who), share in found.items()
            if of == fault and who not in (OURS, SAME_RUNS)
        }
        best = max(theirs, key=lambda who: theirs[who]["value"] or 0.0, default=None)
        rows.append(
            (
                fault,
                _found(found.get((fault, SAME_RUNS))),
                _found(theirs[best]) if best else "-",
                best if best and theirs[best]["hits"] else "-",
            )
        )
    yield from table_of(("Class", "Tocsin, in the baselines' runs", "best baseline", "which"), rows)


def _found(share: Mapping[str, Any] | None) -> str:
    return (
        f"{share['hits']}/{share['of']} ({rounded_down(share['low95'])}-{share['high95']:.2f})"
        if share and share["of"]
        else "-"
    )
