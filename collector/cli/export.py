"""``tocsin export``: a slice of the store as one file to hand to a vendor or a colleague."""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from collector.cli.local_copy import near
from collector.cli.options import add_settings, inputs
from collector.cli.parser import Parser
from collector.cli.time_args import interval
from collector.config.load import load
from collector.config.raw_setting import ConfigError
from collector.version import VERSION

NAME = "export"
USAGE = "export (--device ID | --incident ID | --since TIME) -o FILE.zip [options]"
HELP = "Export a device, an incident or a time range from the store as one file."
EXAMPLE = """\
Examples:
  tocsin export --device GPU-5a1c2b9e-7f64-4a0e-9d6c-1f0f3b6f2c11 --since 2h -o gpu.zip
  tocsin export --incident 8f14e45f --redact -o case.zip
  tocsin export --since 2026-11-20T07:00 --until 2026-11-20T08:00 --host node17 -o node17.zip

Times are ISO (UTC unless a zone is given) or a time ago: 90m, 7d. README.txt in the zip file
lists its contents."""

# Tables in which a subject is looked up.
LOOKED_UP: dict[str, tuple[str, ...]] = {
    "device": ("devices",),
    "incident": ("incidents", "findings"),
    "time": (),
}
DEFAULT_SINCE = "1d"


def options(parser: Parser) -> None:
    """What to cut out, and from where."""
    about = parser.add_mutually_exclusive_group()
    about.add_argument(
        "--device",
        metavar="ID",
        help="GPU UUID, port GUID or the id of another device; includes its parts",
    )
    about.add_argument(
        "--incident",
        metavar="ID",
        help="incident or finding (id, its first characters, or latest), 15 min before and after",
    )
    parser.add_argument(
        "--since", metavar="TIME", help=f"begin (default: {DEFAULT_SINCE} before the end)"
    )
    parser.add_argument("--until", metavar="TIME", default="now", help="end (default: now)")
    parser.add_argument(
        "--host", action="append", default=[], metavar="NAME", help="only this node; repeatable"
    )
    parser.add_argument("-o", "--output", required=True, metavar="FILE.zip", help="file to write")
    parser.add_argument(
        "--redact",
        action="store_true",
        help="omit process names, process ids and command lines",
    )
    add_settings(parser, only=("storage",))


def run(args: argparse.Namespace) -> int:
    """Write the file and say what is in it."""
    if not (args.device or args.incident or args.since):
        raise ConfigError("export: one of --device ID, --incident ID, --since TIME is required")
    if not args.output.endswith(".zip"):
        raise ConfigError(f"-o: {args.output} does not end in .zip, the only form of an export")
    if not Path(args.output).absolute().parent.is_dir():
        raise ConfigError(f"-o: folder {Path(args.output).parent} does not exist")
    config = load(inputs(args)).config
    now_us = time.time_ns() // 1000
    window = _window(args, now_us)
    # here: it needs pyarrow, the other commands do not
    store: Any = importlib.import_module("pipeline.store.export.export")
    objects: Any = importlib.import_module("pipeline.store.remote.objects")
    subjects: Any = importlib.import_module("pipeline.store.export.subject")
    try:
        with tempfile.TemporaryDirectory(prefix="tocsin-fetched-") as scratch:
            root, fetch = near(config.storage.path, config.storage.upload.target, Path(scratch))
            fetch(
                LOOKED_UP["incident" if args.incident else "device" if args.device else "time"],
                window,
                tuple(args.host),
            )
            subject = _subject(subjects, root, args, window)
            fetch(store.tables_of(subject), subject.window, subject.hosts)
            done = store.export(
                root, subject, Path(args.output), version=VERSION, now_us=now_us, redact=args.redact
            )
    except (subjects.NothingToExportError, objects.RefusedError, OSError) as error:
        print(f"tocsin: {error}", file=sys.stderr)
        return 1
    print(
        f"{args.output}: {subject.title}, "
        + ", ".join(f"{count} {table}" for table, count in done.rows.items())
    )
    return 0


def _window(args: argparse.Namespace, now_us: int) -> Any:
    """The time that was asked for; None where an incident brings its own."""
    slices: Any = importlib.import_module("pipeline.store.files.slice")
    since_us, until_us = interval(args, now_us, default=DEFAULT_SINCE)
    if args.incident and not args.since:
        return None
    return slices.Window(since_us, until_us)


def _subject(subjects: Any, root: Path, args: argparse.Namespace, window: Any) -> Any:
    hosts = tuple(args.host)
    if args.incident:
        return subjects.about_incident(root, args.incident, window)
    if args.device:
        return subjects.about_device(root, args.device, window, hosts)
    return subjects.about_time(window, hosts)
