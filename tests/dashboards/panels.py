"""The committed dashboards as Grafana reads them: panels, and their queries with
the variables filled in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "dashboards"
DASHBOARDS: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for path in sorted(FOLDER.glob("*.json"))
}

# Every choice of the viewer on "All".
ANYTHING = {
    **dict.fromkeys(("cluster", "job", "training_job"), ".*"),
    **dict.fromkeys(("instance", "gpu", "uuid", "device"), ".+"),
}


@dataclass(frozen=True, slots=True)
class Target:
    """One query of one panel."""

    dashboard: str
    panel: str
    letter: str
    expr: str
    legend: str

    def __str__(self) -> str:
        return f"{self.dashboard}: {self.panel} {self.letter}"


def panels(dashboard: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Its panels; rows are headings."""
    yield from (panel for panel in dashboard["panels"] if panel["type"] != "row")


def targets() -> Iterator[Target]:
    """Every query of every panel."""
    for name, dashboard in DASHBOARDS.items():
        for panel in panels(dashboard):
            for each in panel["targets"]:
                yield Target(
                    name, panel["title"], each["refId"], each["expr"], each.get("legendFormat", "")
                )


def filled(expr: str, chosen: Mapping[str, str]) -> str:
    """An expression with Grafana's variables replaced; AssertionError for one that nobody set."""
    for name in sorted(chosen, key=len, reverse=True):
        expr = expr.replace(f"${name}", chosen[name])
    assert not re.search(r"\$[a-zA-Z_]", expr), expr
    return expr
