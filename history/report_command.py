"""``tocsin report``: what became of all GPU time of a store, by cause, team, model and rack."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from collector.cli.options import add_settings, inputs
from collector.cli.parser import Parser
from collector.cli.time_args import interval
from collector.config.load import load
from collector.config.raw_setting import ConfigError
from history import command
from pipeline.extras import how_to_add

if TYPE_CHECKING:
    from history.economics.gather import Accounting
    from pipeline.store.query.store import Store

NAME = "report"
USAGE = "report [--since TIME] [--until TIME] [--format text|html|csv|json] [-o FILE] [options]"
HELP = "Report GPU-hours used, idle and lost by cause, failures, repair times and lemons."
EXAMPLE = """\
Examples:
  tocsin report --since 30d
  tocsin report --since 30d --format html -o report.html
  tocsin report --storage.path s3://bucket/fleet --since 2026-08-01 --until 2026-11-01 --format csv
  TZ=UTC sacct -a -D -P --noconvert -S 2026-08-01 -o ALL > sacct.txt
  tocsin report --since 90d --sacct sacct.txt --sacct-events events.txt
  tocsin report --since 90d --slurm                              (on a host with sacct)
  tocsin report --since 90d --prometheus http://prometheus:9090  (cordons of Kubernetes)

Each GPU-second has one cause, the first that holds of down, repair, lost to a fault, stalled,
checkpoint, start-up, idle, used; what no agent read is unknown. The sum is wall time times GPUs."""
DEFAULT_SINCE, MINUTE_US = "30d", 60_000_000
FORMATS = ("text", "html", "csv", "json")


def options(parser: Parser) -> None:
    """Of when, in which form, with which accounting."""
    parser.add_argument("--since", default=DEFAULT_SINCE, metavar="TIME", help="begin (30d)")
    parser.add_argument("--until", default="now", metavar="TIME", help="end (now)")
    parser.add_argument("--format", choices=FORMATS, default="text", help="text (default)")
    parser.add_argument("-o", "--output", default="", metavar="FILE", help="file to write")
    parser.add_argument(
        "--target",
        type=float,
        default=0.99,
        metavar="SHARE",
        help="availability to compare with (0.99)",
    )
    parser.add_argument(
        "--sacct", default="", metavar="FILE", help="output of sacct -a -D -P: teams of jobs"
    )
    parser.add_argument(
        "--sacct-events",
        default="",
        metavar="FILE",
        help="output of sacctmgr -P show event: nodes that were drained or down",
    )
    parser.add_argument(
        "--slurm", action="store_true", help="ask sacct and sacctmgr themselves, on this machine"
    )
    parser.add_argument(
        "--prometheus",
        default="",
        metavar="URL",
        help="cordons, node conditions and node states: kube-state-metrics, exporters of Slurm",
    )
    command.connection_options(parser)
    add_settings(parser, only=("storage",))


def run(args: argparse.Namespace) -> int:
    """Write the report; 1 where the store cannot be read or has no GPU in that time, or the file
    cannot be written.
    """
    from history.economics import forms  # noqa: PLC0415 - it needs polars
    from history.economics.gather import gather  # noqa: PLC0415
    from history.economics.report import document, report  # noqa: PLC0415
    from pipeline.store.query.file_store import ChangingError  # noqa: PLC0415
    from pipeline.store.remote.objects import RefusedError  # noqa: PLC0415

    if not 0 < args.target <= 1:
        raise ConfigError(f"--target {args.target}: expected a share such as 0.99")
    since, until = _window(args)
    accounting = _accounting(args, since, until)
    for note in accounting.notes:
        print(f"tocsin: {note}", file=sys.stderr)
    try:
        gathered = gather(_store(args), since, until, accounting)
    except (RefusedError, ChangingError, OSError) as error:
        print(f"tocsin: {error}", file=sys.stderr)
        return 1
    if not gathered.nodes:
        print("tocsin: the store has no GPU in that time", file=sys.stderr)
        return 1
    made = report(gathered, since, until, args.target, accounting)
    write = {"text": forms.as_text, "html": forms.as_html, "csv": forms.as_csv}
    text = (
        json.dumps(document(made), indent=2) + "\n"
        if args.format == "json"
        else write[args.format](made)
    )
    if args.output:
        try:
            Path(args.output).write_text(text, encoding="utf-8")
        except OSError as error:
            print(f"tocsin: --output: {error}", file=sys.stderr)
            return 1
    else:
        sys.stdout.write(text)
    return 0


def _window(args: argparse.Namespace) -> tuple[datetime, datetime]:
    """Complete minutes, up to the one that runs: what lies ahead is not unknown, nor is what is
    open now known to last.
    """
    now_us = time.time_ns() // 1000
    since_us, until_us = interval(args, now_us, default=DEFAULT_SINCE)
    until_us = min(until_us or now_us, now_us + MINUTE_US)
    begin, end = (at // MINUTE_US * 60 for at in (since_us or 0, until_us))
    if begin >= end:
        raise ConfigError("--since, --until: expected a minute between them at least")
    return datetime.fromtimestamp(begin, UTC), datetime.fromtimestamp(end, UTC)


def _store(args: argparse.Namespace) -> Store:
    from pipeline.store.query.store import Store as Opened  # noqa: PLC0415

    config = load(inputs(args)).config
    url = config.storage.path
    return Opened(url, target=replace(config.storage.upload.target, url=url))


def _accounting(args: argparse.Namespace, since: datetime, until: datetime) -> Accounting:
    """From files, which must be right, and from servers, which may be away."""
    from history.economics.gather import Accounting as Made  # noqa: PLC0415
    from history.economics.sacct import SacctError, node_events, runs  # noqa: PLC0415

    try:
        found = Made(
            runs(_text(args.sacct)) if args.sacct else (),
            node_events(_text(args.sacct_events)) if args.sacct_events else (),
        )
    except (SacctError, OSError) as error:
        raise ConfigError(f"--sacct, --sacct-events: {error}") from error
    if args.slurm:
        from history.economics.slurm_days import ask  # noqa: PLC0415 - it needs polars

        found = found.joined(ask(since, until))
    if args.prometheus:
        found = found.joined(_prometheus(args, since, until))
    return found


def _prometheus(args: argparse.Namespace, since: datetime, until: datetime) -> Accounting:
    from history.economics.gather import Accounting as Made  # noqa: PLC0415

    try:
        from history.economics.site_nodes import outages, site_log  # noqa: PLC0415
        from history.site.series import SiteError  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigError(f"--prometheus needs {error.name}: {how_to_add('history')}") from None
    begin_ms, end_ms = (round(at.timestamp() * 1000) for at in (since, until))
    try:
        site = command.site_at(args, [args.prometheus], time.time_ns() // 1_000_000)
        return Made(nodes=outages(site_log(site, begin_ms, end_ms), end_ms))
    except (SiteError, OSError) as error:
        return Made(notes=(f"Without node states of Prometheus: {error}",))


def _text(file: str) -> str:
    return Path(file).read_text(encoding="utf-8", errors="replace")
