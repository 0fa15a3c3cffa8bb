"""Writes the tables of docs/scores.md from docs/scores.json (`make docs`). The text stays."""

from __future__ import annotations

import json
from pathlib import Path

from score_tables import authors, classes, faults, goals, installed, learning, origin

DOCS = Path(__file__).resolve().parent
TARGET, SCORES = DOCS / "scores.md", DOCS / "scores.json"
LEARNT = DOCS / "learning.json"
TABLES = {
    "learning_calibration": learning.calibration,
    "learning_ways": learning.ways,
    "learning_fresh": learning.fresh,
    "learning_nightly": learning.nightly,
    "learning_ranking": learning.ranking,
    "learning_usual": learning.usual,
    "learning_waves": lambda report: learning.usual(report, "waves"),
    "origin": origin.origin,
    "installed": installed.installed,
    "released": installed.released,
    "goals": goals.goals,
    "authors": authors.authors,
    "faults": faults.faults,
    "strata": faults.strata,
    "healthy": faults.healthy,
    "candidates": classes.candidates,
    "classes": classes.classes,
    "budgets": classes.budgets,
    "misses": faults.misses,
}


def scores() -> str:
    """The page with its tables written again."""
    learnt = json.loads(LEARNT.read_bytes()) if LEARNT.exists() else {}
    report = json.loads(SCORES.read_bytes()) | {"learning": learnt}
    text = TARGET.read_text(encoding="utf-8")
    for name, make in TABLES.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        head, _, rest = text.partition(begin)
        text = (
            head
            + begin
            + "".join(f"{line}\n" for line in make(report))
            + end
            + rest.partition(end)[2]
        )
    return text


if __name__ == "__main__":
    TARGET.write_text(scores(), encoding="utf-8")
