"""Which run the figures are of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from score_tables.cells import table_of


def origin(report: Mapping[str, Any]) -> Iterator[str]:
    """Commit, code, seeds, size and price of the run."""
    about = report["about"]
    yield from table_of(
        ("Run", "Value"),
        (
            ("commit", about["commit"]),
            ("code", f"{about['code']} (what a run imports)"),
            ("seeds", f"{about['seeds'][0]} to {about['seeds'][-1]} of {about['suite']}"),
            ("scenarios", len(about["scenarios"])),
            ("runs", about["runs"]["in_all"]),
            ("CPU hours", f"{about['cpu_hours']:g}"),
            ("machine of the last call", about["machine"]),
        ),
    )
