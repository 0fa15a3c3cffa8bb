"""Adds runs of one later revision to docs/scores.json: `python docs/later_scores.py COMMIT DIR`.

They are shown beside the tables of the complete suite, which no single revision has run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluation.runs.report import report_of
from evaluation.runs.run import OURS, SHIPPED
from evaluation.runs.saved_results import kept

SCORES = Path(__file__).resolve().parent / "scores.json"
SHOWN = (OURS, SHIPPED)


def main(arguments: Sequence[str]) -> None:
    """Take the results of a folder; those of the same revision are replaced."""
    commit, folder = arguments
    document = json.loads(SCORES.read_bytes())
    others = [one for one in document.get("later", ()) if one["commit"] != commit]
    document["later"] = [*others, entry(commit, kept([folder]))]
    SCORES.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def entry(commit: str, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Rows of the report that the page shows, with the seeds of each scenario."""
    report = report_of(results).document()
    jobs = [result["job"] for result in results]
    seeds: dict[str, list[int]] = {}
    for job in jobs:
        seeds.setdefault(job["scenario"], []).append(job["seed"])
    return {
        "commit": commit,
        "seeds": {name: sorted(found) for name, found in sorted(seeds.items())},
        "skipped": {
            result["job"]["scenario"]: result["skipped"] for result in results if result["skipped"]
        },
        **{
            part: [row for row in report[part] if row["contestant"] in SHOWN]
            for part in ("scenarios", "healthy", "misses")
        },
    }


if __name__ == "__main__":
    main(sys.argv[1:])
