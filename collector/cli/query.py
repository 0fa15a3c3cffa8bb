"""``tocsin query``: history in SQL or by a canned question, as a table, CSV,
JSON, Parquet or a plot.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from collector.cli import terminal
from collector.cli.options import add_settings, inputs
from collector.cli.parser import Parser
from collector.cli.progress import Progress
from collector.cli.time_args import interval
from collector.config.load import load
from collector.config.raw_setting import ConfigError
from collector.config.settings import Config
from pipeline.store.query.questions import QUESTIONS

NAME = "query"
USAGE = (
    'query ("SQL" | QUESTION | device ID) [--since TIME] [--until TIME] [--format FORM] [options]'
)
HELP = "Query the store, in SQL or with a canned question."
_EXAMPLES = """\
Examples:
  tocsin query ecc --since 7d
  tocsin query device GPU-5a1c --since 1h
  tocsin query temperature --since 1d --format svg -o temperature.svg
  tocsin query "SELECT device, max(temperature_celsius) FROM gpu GROUP BY device"
  tocsin query --storage.path s3://bucket/fleet --format json "SELECT * FROM events"

Tables: gpu, gpu_instance, nvlink, ib_port, node (native units); gpu_base and so on (base units);
events, findings, incidents, devices, reads; roll-ups gpu_1m, gpu_15m and so on. The last seconds of
a running agent are included. Times are ISO (UTC unless a zone is given) or a time ago: 90m, 7d."""
EXAMPLE = "\n".join(
    ("Questions:", *(f"  {name:12} {text}" for name, text in QUESTIONS.items()), "", _EXAMPLES)
)

FORMATS = ("table", "csv", "json", "parquet", "svg")
DEFAULT_SINCE = "1d"  # of a canned question; SQL asks all there is


def options(parser: Parser) -> None:
    """What to ask, of when, and how to answer."""
    parser.add_argument(
        "question",
        nargs="+",
        metavar="QUESTION",
        help="SQL in one argument, or the name of a canned question",
    )
    parser.add_argument(
        "--since",
        default="",
        metavar="TIME",
        help=f"begin (default: {DEFAULT_SINCE} before the end; for SQL all)",
    )
    parser.add_argument("--until", default="", metavar="TIME", help="end (default: the last row)")
    parser.add_argument(
        "--device",
        action="append",
        default=[],
        metavar="ID",
        help="only this device: id, its first characters, or name; repeatable",
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="table",
        help="table (default), csv, json (one object per line), parquet, svg",
    )
    parser.add_argument(
        "-o",
        "--output",
        default="",
        metavar="FILE",
        help="write to a file instead of standard output",
    )
    add_settings(parser, only=("storage",))


def run(args: argparse.Namespace) -> int:
    """Ask and print."""
    asked, devices = _asked(args)
    config = load(inputs(args)).config
    # here: it needs polars, the other commands do not
    query: Any = importlib.import_module("pipeline.store.query.store")
    objects: Any = importlib.import_module("pipeline.store.remote.objects")
    places: Any = importlib.import_module("pipeline.store.query.file_store")
    bar = Progress(sys.stderr)
    try:
        store = _store(query, config, bar)
        window = _window(query, args, default=DEFAULT_SINCE if asked else "")
        answer = (
            _canned(store, window, asked, devices, args.format)
            if asked
            else _sql(store, window, args.question[0])
        )
    except (objects.RefusedError, places.ChangingError, OSError) as error:
        print(f"tocsin: {error}", file=sys.stderr)
        return 1
    finally:
        bar.close()
    try:
        _write(answer, args.format, args.output)
    except OSError as error:
        if not args.output:
            raise
        print(f"tocsin: -o {args.output}: {error.strerror or error}", file=sys.stderr)
        return 1
    for why in store.left_out:
        print(f"tocsin: left out: {why}", file=sys.stderr)
    return 0


def _asked(args: argparse.Namespace) -> tuple[str, list[str]]:
    """The name of the canned question (empty for SQL) and devices; ConfigError where
    the words make no question.
    """
    first, *rest = args.question
    if args.format == "parquet" and not args.output:
        raise ConfigError("--format parquet is binary: give -o FILE")
    if first == "device" and len(rest) == 1:
        return first, [*args.device, *rest]
    if rest:
        raise ConfigError(
            f"query: {' '.join(args.question)!r}: give SQL as one argument in quotes, or one of "
            f"{', '.join(QUESTIONS)}"
        )
    if first == "device" and not args.device:
        raise ConfigError("query device: give its id: tocsin query device ID")
    if first in QUESTIONS:
        return first, list(args.device)
    if " " not in first.strip():
        raise ConfigError(f"query: no question {first!r}; there are {', '.join(QUESTIONS)}, or SQL")
    if args.format == "svg":
        raise ConfigError(
            "--format svg draws canned questions; SQL answers as table, csv, json or parquet"
        )
    if args.device:
        raise ConfigError("--device is for canned questions; in SQL write WHERE device = '...'")
    return "", []


def _store(query: Any, config: Config, bar: Progress) -> Any:
    url = config.storage.path
    if "://" not in url and not Path(url).is_dir():
        raise ConfigError(f"storage.path: {url} does not exist")
    return query.Store(url, target=replace(config.storage.upload.target, url=url), progress=bar)


def _window(query: Any, args: argparse.Namespace, *, default: str) -> Any:
    since_us, until_us = interval(args, time.time_ns() // 1000, default=default)
    return query.Window(
        None if since_us is None else _time(since_us),
        None if until_us is None else _time(until_us),
    )


def _time(time_us: int) -> datetime:
    return datetime.fromtimestamp(time_us // 1_000_000, UTC).replace(
        microsecond=time_us % 1_000_000
    )


def _canned(store: Any, window: Any, name: str, devices: list[str], form: str) -> Any:
    """The table of a canned question, or its plot as text."""
    canned: Any = importlib.import_module("pipeline.store.query.canned")
    question = canned.QUESTIONS[name]
    if devices and not question.about_devices:
        raise ConfigError(f"query {name}: --device has no effect")
    try:
        window = canned.resolve(store, window, devices) if devices else window
        if form == "svg":
            plot: Any = importlib.import_module("pipeline.store.query.plot")
            return plot.svg(question.draw(store, window))
        return question.ask(store, window)
    except canned.UnknownDeviceError as error:
        raise ConfigError(f"--device: {error.args[0]}") from error


def _sql(store: Any, window: Any, text: str) -> Any:
    query: Any = importlib.import_module("pipeline.store.query.store")
    try:
        return store.sql(text, window)
    except query.SqlError as error:
        raise ConfigError(f"SQL: {error}") from error


def _shown(text: str) -> str:
    """Lines for a terminal; files and pipes get values as they are stored."""
    return "\n".join(map(terminal.plain, text.split("\n")))


def _write(answer: Any, form: str, output: str) -> None:
    render: Any = importlib.import_module("pipeline.store.query.render")
    if form == "parquet":
        render.parquet(answer, Path(output))
        return
    if form == "table" and not output:
        sys.stdout.writelines(terminal.table(*render.cells(answer)))
        return
    lines = [answer] if form == "svg" else render.FORMS[form](answer)
    if not output:
        sys.stdout.writelines(map(_shown, lines) if terminal.is_terminal(sys.stdout) else lines)
        return
    with Path(output).open("w", encoding="utf-8", newline="") as file:
        file.writelines(lines)
