"""Writes the tables of docs/scores.md from docs/scores.json (`make docs`). The text stays."""

from __future__ import annotations

import json
from pathlib import Path

from score_tables import classes, faults, goals, installed, later, learning

DOCS = Path(__file__).resolve().parent
TARGET, SCORES = DOCS / "scores.md", DOCS / "scores.json"
LEARNT = DOCS / "learning.json"
INSTALLED = DOCS / "installed.json"  # horizon node, which ships
TABLES = {
    "learning_calibration": learning.calibration,
    "learning_ways": learning.ways,
    "learning_fresh": learning.fresh,
    "learning_nightly": learning.nightly,
    "learning_ranking": learning.ranking,
    "learning_usual": learning.usual,
    "learning_waves": lambda report: learning.usual(report, "waves"),
    "installed": installed.installed,
    "released": installed.released,
    "goals": goals.goals,
    "later": later.sums,
    "later_faults": later.faults,
    "later_healthy": later.healthy,
    "later_misses": later.misses,
    "faults": faults.faults,
    "strata": faults.strata,
    "healthy": faults.healthy,
    "classes": classes.classes,
    "budgets": classes.budgets,
    "misses": faults.misses,
}


def scores() -> str:
    """The page with its tables written again."""
    learnt = json.loads(LEARNT.read_bytes()) if LEARNT.exists() else {}
    report = json.loads(SCORES.read_bytes()) | {"learning": learnt}
    report |= {"installed": json.loads(INSTALLED.read_bytes())}
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
