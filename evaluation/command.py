"""``tocsin score``: the scenario suite; how well faults are found, how often nothing is taken for one."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

NAME = "score"
USAGE = "score [--suite dev|test] [--scenario F10 ...] [--seeds 1,2,5..9] [options]"
HELP = "Run the scenario suite over the detectors and the baselines, and report how good they are."
EXAMPLE = """\
Examples:
  tocsin score --scenario F16 H05 --seed 1
  tocsin score --suite test --seeds 1001..1008 --resume .scores --json scores.json
  tocsin score --suite dev --scope fleet --detectors ours,gpud --magnitudes nominal,half,sweep
  tocsin score --suite test --plan --seed 5001 --resume .scores --json docs/scores.json     # the whole claim: make score SEED=5001
  tocsin score --suite test --report .scores .scores-of-yesterday --json docs/scores.json --log docs/scoring.md

Tune on dev, claim on test. Seeds never meet: one number is another world in each. Ranges do: those of test contain those of dev and go
beyond them, where nothing was tuned. A plan runs the swept magnitude at its nominal value, which both suites know, and at half of it.
A test seed whose figures were looked at is a seen one: take another. With --resume DIR what is done is kept, and done
again only when the code has changed. Baselines half-space-trees and isolation-forest need the extra `baselines`."""

SUITES = ("dev", "test")
MAGNITUDES = "nominal,half,range"
CASES = 200


def options(parser: argparse.ArgumentParser) -> None:
    """What to run, where to keep it, what to write. What has a default is None until it is given: with --plan or --report it may have no effect."""
    parser.add_argument("--suite", "--split", choices=SUITES, default="dev", help="which seeds and ranges (default: dev)")
    parser.add_argument("--scenario", nargs="+", metavar="ID", help="only these, such as F10 or H05 (default: all)")
    seeds = parser.add_mutually_exclusive_group()
    seeds.add_argument("--seeds", type=_seeds, metavar="1,2,5..9", help="seeds (default: 1,2 of dev; 1001,1002 of test)")
    seeds.add_argument("--seed", type=int, metavar="N", help="one seed")
    parser.add_argument(
        "--scope",
        choices=("node", "fleet", "both"),
        help="each agent alone, or all frames joined (default: both)",
    )
    parser.add_argument("--detectors", metavar="WHO", help="ours, baselines, all, or names with commas (default: all)")
    parser.add_argument("--magnitudes", metavar="M", help=f"nominal, half, range, sweep, or numbers (default: {MAGNITUDES})")
    parser.add_argument(
        "--plan",
        type=_cases,
        nargs="?",
        const=CASES,
        metavar="CASES",
        help=f"the runs that the claim rests on: so many cases of every class (default: {CASES}), 2,000 healthy GPU-months",
    )
    parser.add_argument("--days", type=_above_zero, metavar="N", help="length of every run in place of the scenario's own")
    parser.add_argument(
        "--nodes", type=int, metavar="N", help="nodes of every run in place of the scenario's own; cases grow with them"
    )
    parser.add_argument("--workers", type=int, metavar="N", help="processes (default: one per core)")
    parser.add_argument("--resume", metavar="DIR", help="keep results here and take up what is done")
    parser.add_argument(
        "--report",
        nargs="+",
        metavar="DIR",
        help="run nothing: report what runs kept in these folders, the last of runs with one name",
    )
    parser.add_argument("--dump", metavar="DIR", help="also keep frames in the store's layout, ground truth and raw findings")
    parser.add_argument(
        "--json", metavar="FILE", nargs="?", const="-", help="write the whole report as JSON (default: standard output)"
    )
    parser.add_argument(
        "--log",
        metavar="FILE",
        help="page that a run of the test suite is added to (default: docs/scoring.md of the checkout, a report to none; none: -)",
    )


def run(args: argparse.Namespace) -> int:
    """Run what is not done yet, report all; 1 where a job failed."""
    from collector.cli.score_run import score  # noqa: PLC0415 - the other commands need neither simulator nor baselines

    return score(args)


def _seeds(text: str) -> tuple[int, ...]:
    """Seeds from ``1,2,5..9``.

    >>> _seeds("1,2,5..9,-3")
    (1, 2, 5, 6, 7, 8, 9, -3)
    """
    return tuple(dict.fromkeys(seed for part in text.split(",") for seed in _span(part)))


def _span(part: str) -> Iterator[int]:
    first, dots, last = part.partition("..")
    span = range(int(first), int(last if dots else first) + 1)
    if not span:
        raise ValueError(f"{part} is empty")
    yield from span


def _cases(text: str) -> int:
    if not 0 < int(text) < 100_000:
        raise ValueError(text)
    return int(text)


def _above_zero(text: str) -> float:
    if not 0 < float(text) < 10_000:
        raise ValueError(text)
    return float(text)
