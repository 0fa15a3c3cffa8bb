"""Recall and precision of the answers of `starvation`, with exact 95 % bounds: F80 to F85.

    python -m benchmarks.starvation --cases 100 --seed 9001 --jobs 2

`tocsin score --suite test --scenario F80 F81 F82 F83 F84 F85 --plan 100 --seed N` scores the same
scenarios with all detectors, which takes hours.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial

from detectors.starvation import Starvation
from detectors.starvation.waits import WAITS
from evaluation.metrics.intervals import share_interval
from pipeline.finding import Finding
from pipeline.observation import Observation
from pipeline.rates import Rates
from simulator.fleet import Run, load_scenario, render
from simulator.fleet.scenario import Split

SCENARIOS = ("F80", "F81", "F82", "F83", "F84", "F85")
NODES, DAYS, STEP_S, HOST_S = 8, 0.5, 10.0, 60.0
LATE_NS = 300 * 10**9  # a wait that ends is over in the next minutes


def with_rates(run: Run) -> Iterator[Observation]:
    """As an engine gives them: with increments."""
    rates: dict[tuple[str, str], Rates] = {}
    for one in run.observations():
        period = HOST_S if one.source == "host" else STEP_S
        frames = tuple(
            rates.setdefault((one.source, f.kind), Rates(f.schema, period)).add(f, one.boot_id)
            for f in one.frames
        )
        yield replace(one, frames=frames)


def counted(run: Run) -> tuple[Counter[str], Counter[str], Counter[str], Counter[str]]:
    """Cases and found ones, answers and right ones, by wait. Answers about the GPUs of a job within
    one minute are one.
    """
    detector, answers = Starvation(), list[Finding]()
    for one in with_rates(run):
        answers += (f for f in detector.update(one) if f.phase == "onset")
    cases, found, said, right = (Counter[str]() for _ in range(4))
    taken: set[tuple[str, str, int]] = set()
    hits: set[int] = set()
    for answer in answers:
        wait = answer.fault.partition("/")[2]
        key = (wait, answer.device.host, answer.time_ns // (60 * 10**9))
        good = [
            number
            for number, truth in enumerate(run.truth)
            if truth.fault.partition("-")[2] == wait
            and any(one.id == answer.device.id for one in truth.members)
            and truth.onset_ns <= answer.time_ns <= truth.end_ns + LATE_NS
        ]
        hits.update(good)
        if key not in taken:
            taken.add(key)
            said[wait] += 1
            right[wait] += bool(good)
    for number, truth in enumerate(run.truth):
        wait = truth.fault.partition("-")[2]
        cases[wait] += 1
        found[wait] += number in hits
    return cases, found, said, right


def scored(scenario: str, seed: int, cases: int, split: Split) -> tuple[Counter[str], ...]:
    """The four counts of one scenario, over as many seeds as its cases need."""
    totals = tuple(Counter[str]() for _ in range(4))
    while totals[0].total() < cases:
        run = render(
            load_scenario(scenario), seed, magnitude="range", split=split, step_s=STEP_S,
            days=DAYS, nodes=NODES,
        )  # fmt: skip
        for total, more in zip(totals, counted(run), strict=True):
            total.update(more)
        seed += 1
    return totals


def main(argv: list[str] | None = None) -> None:
    """Run until each wait has its cases, and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100, help="of each wait")
    parser.add_argument("--seed", type=int, default=1, help="the first of the seeds")
    parser.add_argument("--split", choices=("dev", "test"), default="test")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    args = parser.parse_args(argv)
    totals = tuple(Counter[str]() for _ in range(4))
    one = partial(scored, seed=args.seed, cases=args.cases, split=args.split)
    with ProcessPoolExecutor(args.jobs) as pool:
        for counts in pool.map(one, SCENARIOS):
            for total, more in zip(totals, counts, strict=True):
                total.update(more)
    cases, found, said, right = totals
    print(f"{'wait':14} {'recall':>9} {'95 % bounds':>14}   {'precision':>9} {'95 % bounds':>14}")
    for wait in WAITS[1:]:
        row = [f"{wait:14}"]
        for hits, of in ((found[wait], cases[wait]), (right[wait], said[wait])):
            low, high = share_interval(hits, of)
            row.append(f"{f'{hits}/{of}':>9} {f'{low:.3f}-{high:.3f}':>14}  ")
        print(" ".join(row))


if __name__ == "__main__":
    main()
