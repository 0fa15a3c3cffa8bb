"""Tocsin beside every baseline, class by class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from evaluation.runs.report import SAME_RUNS
from evaluation.runs.run import OURS
from score_tables.cells import rate_of, rounded_down, table_of

BUDGET = 0.02  # false tickets per GPU-month: what the design allows


def candidates(report: Mapping[str, Any]) -> Iterator[str]:
    """What each candidate gets wrong in healthy runs."""
    yield from table_of(
        ("Candidate", "Healthy GPU-months", "False pages per GPU-month",
         "False tickets per GPU-month"),
        (
            (name, f"{figures['healthy_gpu_months']:.0f}",
             *(rate_of(figures["false_alarms"][what]["of_all"]) for what in ("pages", "tickets")))
            for name, figures in _candidates(report).items()
        ),
    )  # fmt: skip


def classes(report: Mapping[str, Any]) -> Iterator[str]:
    """How many cases of each class each candidate finds in time."""
    found = {name: figures["recall_by_class"] for name, figures in _candidates(report).items()}
    yield from table_of(
        ("Class", *found),
        (
            (fault, *(_cell(shares.get(fault)) for shares in found.values()))
            for fault in sorted(report["summary"]["fleet"]["recall_by_class"])
        ),
    )


def _candidates(report: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    fleet = report["summary"]["fleet"]
    own = {
        "Tocsin": fleet,
        "default configuration": fleet["as_shipped"],
        "in the baselines' runs": fleet["same_runs"],
        "agents alone": report["summary"]["node"],
    }
    return own | dict(fleet["baselines"])


def _cell(found: Mapping[str, Any] | None) -> str:
    return f"{found['hits']}/{found['of']}" if found and found["of"] else "-"


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
