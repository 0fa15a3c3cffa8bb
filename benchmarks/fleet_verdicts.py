"""Recall and precision of what only the gateway can say, with exact 95 % bounds, at fleet horizon.

    nice -n 10 python -m benchmarks.fleet_verdicts --seed 41001 --keep FOLDER

Each verdict has runs of its scenario, most with more nodes, hence more cases, than the scenario
says, until it has ``--cases``. All detectors judge the joined frames; an alert that is about no
fault of the run counts against precision whatever its class, if it is a ticket or a page. Results
of runs are kept in FOLDER, and a run whose result is there is not made again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from evaluation.metrics.figures import figures
from evaluation.metrics.intervals import share_interval
from evaluation.runs.run import OURS, Job, case_from, run_job


class Verdict(NamedTuple):
    """Which scenario, how many nodes a run has, and seconds between two readings."""

    words: str
    scenario: str
    nodes: int | None
    step_s: float


# Readings as far apart as the deadline of each allows (evaluation/runs/cadence.py).
VERDICTS = (
    Verdict("slow node of a job", "F55", 96, 30.0),
    Verdict("end of a link that receives badly", "F21", 64, 60.0),
    Verdict("rising errors of a link, both ends", "F19", 64, 60.0),
    Verdict("leaf switch", "F70", 256, 30.0),
    # A cluster has eight rails: of more nodes, cases would be at the same rail at the same time.
    Verdict("rail, leaf switches not known", "F71", None, 30.0),
    Verdict("slow leaf switch", "F72", 256, 30.0),
    Verdict("cooling of a rack", "F12", 256, 30.0),
    Verdict("stalled job and its rank", "F25", 128, 15.0),
    Verdict("rank of a stalled job, by RAS or dumps", "F56", 128, 5.0),
    Verdict("lemon", "F31", 64, 60.0),
    Verdict("drift against the majority", "F88", None, 300.0),
    Verdict("switch of 1,000 nodes", "F74", None, 30.0),
)


def main() -> None:
    """Run what is not there yet, and print a line per verdict."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100, help="of each verdict")
    parser.add_argument("--seed", type=int, required=True, help="the first of the seeds")
    parser.add_argument("--scenario", nargs="+", default=[], help="default: all")
    parser.add_argument("--keep", type=Path, required=True, help="folder for results")
    args = parser.parse_args()
    args.keep.mkdir(parents=True, exist_ok=True)
    heads = "verdict|scenario|recall|precision|device first|delay p50, p90, s|cost|false alerts"
    print(heads, flush=True)
    for verdict in VERDICTS:
        if verdict.scenario in (args.scenario or [verdict.scenario]):
            done = list(results(verdict, args.seed, args.cases, args.keep))
            print(line(verdict, done), flush=True)


def results(verdict: Verdict, seed: int, cases: int, folder: Path) -> Iterator[dict[str, Any]]:
    """Results of as many runs as the cases need, each with the next seed."""
    found = 0
    while found < cases:
        job = Job(
            verdict.scenario,
            "nominal",
            seed,
            "test",
            ((OURS, "fleet"),),
            nodes=verdict.nodes,
            step_s=verdict.step_s,
        )
        file = folder / f"{job.name}.json"
        if not file.exists():
            begun_s = time.process_time()
            result = {**run_job(job), "cpu_s": time.process_time() - begun_s}
            file.write_text(json.dumps(result), encoding="utf-8")
        result = json.loads(file.read_text(encoding="utf-8"))
        seed, found = seed + 1, found + sum(one["watched"] for one in ours(result)["cases"])
        yield result


def ours(result: dict[str, Any]) -> dict[str, Any]:
    """The result of all detectors, not of those that ship switched on."""
    return next(one for one in result["results"] if one["contestant"] == OURS)


def line(verdict: Verdict, runs: list[dict[str, Any]]) -> str:
    """A row of the table."""
    cases = [case_from(case) for run in runs for case in ours(run)["cases"]]
    false = Counter((one["severity"], one["fault"]) for run in runs for one in ours(run)["false"])
    of_all = figures(cases)
    hits, of = of_all["recall"]["hits"], of_all["cases"]
    first, delay = of_all["attribution"]["top1"], of_all["delay_s"]
    cells = (
        verdict.words,
        verdict.scenario,
        _bounds(hits, of),
        _bounds(hits, hits + false.total()),
        f"{first['hits']}/{first['of']}",
        f"{delay['p50']}, {delay['p90']}",
        f"{len(runs)} runs, {sum(run['cpu_s'] for run in runs):.0f} CPU s",
        ", ".join(f"{n} {' '.join(which)}" for which, n in false.most_common()),
    )
    return "| " + " | ".join(cells) + " |"


def _bounds(hits: int, of: int) -> str:
    low, high = share_interval(hits, of)
    return f"{hits}/{of} ({low:.3f}-{high:.3f})"


if __name__ == "__main__":
    main()
