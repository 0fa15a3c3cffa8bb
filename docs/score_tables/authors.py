"""Worlds of another author beside the suite."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from evaluation.runs.run import OURS, SHIPPED
from score_tables.cells import share_of, table_of

CLOSE = 0.05  # of recall: what the goal allows
WHO = {OURS: "all detectors", SHIPPED: "as installed"}


def authors(report: Mapping[str, Any]) -> Iterator[str]:
    """Recall of each class there and in the suite: agents alone first."""
    rows = sorted(report["authors"], key=lambda row: (row["scope"] != "node", row["class"]))
    yield from table_of(
        ("Class", "Horizon", "Detectors", "There", "In the suite", f"Within {CLOSE}"),
        (
            (row["class"], row["scope"], WHO[row["contestant"]], share_of(row["recall"]),
             share_of(row["suite"]), _close(row["recall"]["value"], row["suite"]["value"]))
            for row in rows
        ),
    )  # fmt: skip


def _close(there: float | None, suite: float | None) -> str:
    if there is None or suite is None:
        return "-"
    return "yes" if there >= suite - CLOSE else "no"
