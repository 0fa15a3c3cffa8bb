"""``tocsin backtest``: what Tocsin would have alerted on in a store, in one report."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from collector.cli.options import add_settings, inputs
from collector.cli.parser import Parser
from collector.config.error import ConfigError

if TYPE_CHECKING:
    from collector.cli.progress import Progress
    from history.backtest.judged import History
    from history.backtest.known import Known
    from pipeline.judge import Judge
    from pipeline.judged import JudgedObservation

NAME = "backtest"
USAGE = "backtest --from DIR [--known FILE] [--since TIME] [--until TIME] [-o FILE] [options]"
HELP = "Report what would have alerted on a store's history, beside what the site knew."
EXAMPLE = """\
Examples:
  tocsin import http://prometheus:9090 --since 90d --to history
  tocsin backtest --from history -o report.html
  tocsin backtest --from history --known drains.csv -o report.md

Every detector is judged as if it were allowed to alert; what alerts as installed is counted apart.
--known is a CSV file with the columns node, opened, closed, cause: drains, tickets, repairs. Times
are ISO 8601 (UTC without a zone) or unix seconds."""
FORMS = (".html", ".md", ".json")


def options(parser: Parser) -> None:
    """Of which store, beside what, into which file."""
    parser.add_argument(
        "--from", dest="root", required=True, metavar="DIR", help="folder of a store"
    )
    parser.add_argument(
        "--known", default="", metavar="FILE", help="CSV file of faults that the site knew"
    )
    parser.add_argument(
        "--since", default="", metavar="TIME", help="begin: a time, or a time ago (default: all)"
    )
    parser.add_argument("--until", default="", metavar="TIME", help="end (default: all)")
    parser.add_argument(
        "-o",
        "--output",
        default="",
        metavar="FILE",
        help="file ending in .html, .md or .json (default: Markdown to standard output)",
    )
    add_settings(parser, only=("detectors",))


def run(args: argparse.Namespace) -> int:
    """Judge, count, write; 0, or 1 where there is nothing to judge."""
    from history.backtest import known  # noqa: PLC0415 - heavy imports: not for --help

    output = Path(args.output) if args.output else None
    if output and output.suffix not in FORMS:
        raise ConfigError(f"--output {output}: expected a name that ends in {', '.join(FORMS)}")
    root = Path(args.root)
    if not root.is_dir():
        raise ConfigError(f"--from {root}: no such folder")
    faults = known.read(Path(args.known)) if args.known else None
    history = _history(args, root)
    if not history.nodes:
        print(f"tocsin: {root}: nothing in this time", file=sys.stderr)
        return 1
    text = _text(history, faults, root, output.suffix if output else ".md")
    try:
        if output:
            output.write_text(text, encoding="utf-8")
        else:
            print(text, end="")
    except OSError as error:
        print(f"tocsin: {error}", file=sys.stderr)
        return 1
    return 0


def _history(args: argparse.Namespace, root: Path) -> History:
    from collector.agent.judge import judge_of  # noqa: PLC0415
    from collector.cli.progress import Progress  # noqa: PLC0415
    from collector.config.load import load  # noqa: PLC0415
    from collector.replaying.stored import Span, extent, stored  # noqa: PLC0415
    from history.backtest.judged import judged  # noqa: PLC0415
    from pipeline.clock import SystemClock  # noqa: PLC0415
    from pipeline.selfmetrics import SelfMetrics  # noqa: PLC0415

    config = load(inputs(args)).config
    span = Span(_moment(args, "since"), _moment(args, "until"))
    metrics, clock = SelfMetrics(), SystemClock()
    judges: dict[str, Judge] = {}
    bar = Progress(sys.stderr)

    def again() -> Iterator[JudgedObservation]:
        for seen in _followed(stored(root, span), extent(root, span), bar):
            host = seen.observation.host
            if host not in judges:
                judges[host] = judge_of(config, metrics, clock, shadow=False)
            yield judges[host].judge(seen.observation)

    try:
        return judged(again())
    finally:
        bar.close()


def _followed(
    observations: Iterator[JudgedObservation], extent_us: tuple[int, int], bar: Progress
) -> Iterator[JudgedObservation]:
    begin, end = extent_us
    for one in observations:
        bar((one.observation.time_ns // 1000 - begin) / max(end - begin, 1))
        yield one


def _moment(args: argparse.Namespace, option: str) -> int | None:
    from collector.cli.time_args import moment  # noqa: PLC0415

    text = getattr(args, option)
    try:
        return moment(text, time.time_ns() // 1000) if text else None
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"--{option}: {error}") from None


def _text(history: History, faults: list[Known] | None, root: Path, form: str) -> str:
    from history.backtest import forms  # noqa: PLC0415
    from history.backtest.pictures import pictures  # noqa: PLC0415
    from history.backtest.report import sections  # noqa: PLC0415

    parts = sections(history, faults)
    if form == ".json":
        return json.dumps(forms.document(history, parts), indent=1) + "\n"
    if form == ".md":
        return forms.markdown(parts)
    return forms.html(parts, pictures(root, history.alerts))
