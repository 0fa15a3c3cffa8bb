"""``tocsin nightly``: the GPUs of a fleet that are worth a look, and why."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from collector.cli.options import add_settings, inputs
from collector.cli.parser import Parser
from collector.config.error import ConfigError
from collector.config.load import load

if TYPE_CHECKING:
    from history.learning.nightly import Listed
    from pipeline.store.query.quarters import GpuQuarters

NAME = "nightly"
USAGE = "nightly [--days N] [--until DATE] [--format table|json] [options]"
HELP = "List ten GPUs worth a look, and what is odd about each: before anything alerts."
EXAMPLE = """\
Examples:
  tocsin nightly --storage.path s3://bucket/fleet
  tocsin nightly --days 30 --until 2026-11-01 --format json

Each GPU is compared with the others of its node and with its own days before, from quarters of an
hour (the table gpu_15m, which agents make of each day that is over). The list has an order and no
threshold: on a healthy fleet its scores are small and its reasons few. docs/learning.md says how
often it is right. It alerts nobody and changes nothing."""
MIN_DAYS, MAX_DAYS = 2, 90


def options(parser: Parser) -> None:
    """Which days, in which form."""
    parser.add_argument(
        "--days", type=int, default=21, metavar="N", help="days to compare (2 to 90, default 21)"
    )
    parser.add_argument(
        "--until", default="", metavar="DATE", help="first day (UTC) that is left out; today"
    )
    parser.add_argument(
        "--format", choices=("table", "json"), default="table", help="table (default) or json"
    )
    add_settings(parser, only=("storage",))


def run(args: argparse.Namespace) -> int:
    """Print it; 0, or 1 where the store has too little."""
    from history.labels.stored import opened  # noqa: PLC0415 - it needs polars
    from history.learning.gpu_days import (  # noqa: PLC0415
        COUNTERS,
        GAUGES,
        Quarters,
        codes,
        gpu_days,
    )
    from history.learning.nightly import nightly  # noqa: PLC0415
    from pipeline.store.query.file_store import ChangingError  # noqa: PLC0415
    from pipeline.store.query.quarters import gpu_quarters  # noqa: PLC0415
    from pipeline.store.remote.objects import RefusedError  # noqa: PLC0415

    until = _day(args.until)
    if not MIN_DAYS <= args.days <= MAX_DAYS:
        raise ConfigError(f"--days: expected {MIN_DAYS} to {MAX_DAYS}, got {args.days}")
    try:
        store = opened(load(inputs(args)).config)
        found = gpu_quarters(store, until - timedelta(days=args.days), until, GAUGES, COUNTERS)
    except (RefusedError, ChangingError, OSError) as error:
        print(f"tocsin: {error}", file=sys.stderr)
        return 1
    if not found.devices:
        print(
            f"tocsin: no quarters of an hour (table gpu_15m) in the {args.days} days until "
            f"{until:%Y-%m-%d}: agents make them of days that are over",
            file=sys.stderr,
        )
        return 1
    ids, hosts, models = (tuple(one[i] for one in found.devices) for i in range(3))
    begin_ns = round(found.since.timestamp()) * 10**9
    numbers = gpu_days(Quarters(found.values, ids, hosts, models, begin_ns))
    listed = nightly(numbers, codes(models), codes(hosts))
    document = [_document(one, found) for one in listed]
    if args.format == "json":
        print(json.dumps(document))
    else:
        _table(document)
    return 0


def _day(text: str) -> datetime:
    if not text:
        return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError as error:
        raise ConfigError(f"--until: expected a day such as 2026-11-01, got {text!r}") from error


def _document(one: Listed, found: GpuQuarters) -> dict[str, Any]:
    from history.learning.gpu_days import NUMBERS  # noqa: PLC0415

    device, host, model = found.devices[one.row]
    why = [
        {"number": name, "words": NUMBERS[name], "value": value, "spreads": z, "days_ago": ago}
        for name, value, z, ago in one.why
    ]
    return {"host": host, "gpu": device, "model": model, "score": one.score, "why": why}


def _table(document: list[dict[str, Any]]) -> None:
    for number, one in enumerate(document, 1):
        print(f"{number:2d}. {one['host']}  {one['gpu']}  {one['model']}  score {one['score']:.0f}")
        for why in one["why"]:
            when = "last day" if not why["days_ago"] else f"{why['days_ago']} days before the last"
            print(
                f"      {why['value']:+.3g} {why['words']} ({why['spreads']:.1f} spreads, {when})"
            )
        if not one["why"]:
            print("      by other GPUs of its node")
    if not document:
        print("nothing is odd: no GPU to list")
