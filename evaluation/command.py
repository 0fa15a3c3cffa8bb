"""``tocsin score``: the scenario suite; how well faults are found, how often
nothing is taken for one.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from collector.cli.spread import spread_options
from evaluation.defaults import CASES, MAGNITUDES

NAME = "score"
USAGE = "score [--suite dev|test] [--scenario F10 ...] [--seeds 1,2,5..9] [options]"
HELP = "Run the scenario suite on the detectors and baselines, and report recall and false alarms."
EXAMPLE = """\
Examples:
  tocsin score --scenario F16 H05 --seed 1
  tocsin score --suite test --seeds 1001..1008 --resume .scores --json scores.json
  tocsin score --suite dev --scope fleet --detectors ours,gpud --magnitudes nominal,half,sweep
  tocsin score --suite test --plan --seed 5001 --resume .scores   (make score SEED=5001)
  tocsin score --suite test --plan --seed 5001 --resume .scores --ray ray://head:10001
  tocsin score --suite test --report .scores .scores-of-yesterday --log docs/scoring.md

Tune on dev, report on test. A seed gives different data in each suite; the ranges of test
contain those of dev and go beyond them. --plan runs swept magnitudes at their nominal value and
at half of it. Do not reuse a test seed whose results were looked at. --resume DIR keeps results,
and repeats them only after a change of the code. The baselines half-space-trees and
isolation-forest need the extra `baselines`."""

SUITES = ("dev", "test")


def options(parser: argparse.ArgumentParser) -> None:
    """What to run, where to keep it, what to write.

    What has a default is None until it is given: with --plan or --report it may have no effect.
    """
    parser.add_argument(
        "--suite",
        "--split",
        choices=SUITES,
        default="dev",
        help="seeds and ranges (default: dev)",
    )
    parser.add_argument(
        "--scenario", nargs="+", metavar="ID", help="only these, such as F10 or H05 (default: all)"
    )
    seeds = parser.add_mutually_exclusive_group()
    seeds.add_argument(
        "--seeds",
        type=_seeds,
        metavar="1,2,5..9",
        help="default: 1,2 for dev; 1001,1002 for test",
    )
    seeds.add_argument("--seed", type=int, metavar="N", help="one seed")
    parser.add_argument(
        "--scope",
        choices=("node", "fleet", "both"),
        help="node: each agent alone; fleet: all nodes together (default: both)",
    )
    parser.add_argument(
        "--detectors",
        metavar="WHO",
        help="ours, baselines, all, or names with commas (default: all)",
    )
    parser.add_argument(
        "--magnitudes",
        metavar="M",
        help=f"nominal, half, range, sweep, or numbers (default: {MAGNITUDES})",
    )
    parser.add_argument(
        "--plan",
        type=_cases,
        nargs="?",
        const=CASES,
        metavar="CASES",
        help=(
            f"the runs of docs/scores.md: this many cases of each class (default: {CASES}) and "
            "2,000 healthy GPU-months"
        ),
    )
    parser.add_argument(
        "--days",
        type=_above_zero,
        metavar="N",
        help="length of each run instead of the scenario's own",
    )
    parser.add_argument(
        "--nodes",
        type=int,
        metavar="N",
        help="nodes of each run instead of the scenario's own; cases scale with them",
    )
    spread_options(parser, "one per core")
    parser.add_argument("--resume", metavar="DIR", help="keep results here and continue from them")
    parser.add_argument(
        "--report",
        nargs="+",
        metavar="DIR",
        help="run nothing: report the results in these directories; of equal runs the last",
    )
    parser.add_argument(
        "--dump",
        metavar="DIR",
        help="also write frames as a store, ground truth and raw findings",
    )
    parser.add_argument(
        "--json",
        metavar="FILE",
        nargs="?",
        const="-",
        help="write the report as JSON (default: standard output)",
    )
    parser.add_argument(
        "--log",
        metavar="FILE",
        help=(
            "page to which a run of the test suite is added (default: docs/scoring.md of the "
            "checkout, with --report none; - for none)"
        ),
    )


def run(args: argparse.Namespace) -> int:
    """Run what is not done yet, report all; 1 where a job failed."""
    from evaluation.score import score  # noqa: PLC0415 - the other commands need neither simulator nor baselines

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
