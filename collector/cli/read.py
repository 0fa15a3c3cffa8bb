"""``tocsin read``: one reading of each source, for people, for programs, and
for saved trees and logs.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from collector.cli import logs
from collector.cli.options import add_settings, inputs
from collector.cli.parser import Parser
from collector.config.load import Inputs, load
from collector.config.raw_setting import ConfigError
from collector.config.settings import Config
from pipeline.observation import Observation

NAME = "read"
USAGE = "read [--source NAME] [--format table|json|prometheus] [options]"
HELP = "Read each source once and print the result."
EXAMPLE = """\
Examples:
  tocsin read
  tocsin read --source infiniband --format json
  tocsin read --simulated .demo/state/simulated   (the node of `make demo`)
  tocsin read --path.sysfs ./saved/sys            (the ports of a saved tree, as JSON lines)
  tocsin read --path.kmsg ./dmesg.txt             (the events of a saved kernel log, as JSON lines)

With --path.sysfs or --path.kmsg only the sources of these paths are read, unless --source names
others."""

FORMATS = ("table", "json", "prometheus")
SAVED = {"sysfs": "infiniband", "kmsg": "kmsg"}


def options(parser: Parser) -> None:
    """Which source, in which form, from where."""
    parser.add_argument(
        "--source", action="append", default=[], metavar="NAME", help="only this source; repeatable"
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="table (default), json: one object per line (default for saved trees), or prometheus",
    )
    parser.add_argument(
        "--simulated",
        default="",
        metavar="DIR",
        help="read the simulated node that runs in this directory",
    )
    add_settings(parser, only=("path", "sources", "exposition", "topology", "log"))


def run(args: argparse.Namespace) -> int:
    """Read and print; 1 where nothing could be read, or lines of a saved log are not understood."""
    from collector.agent import reading  # noqa: PLC0415 - help and errors need neither sources nor numpy
    from collector.cli import show  # noqa: PLC0415

    given = inputs(args)
    config = load(given).config
    logs.set_up("warning" if config.log.level == "info" else config.log.level, config.log.format)
    saved = from_saved(given)
    wanted = chosen(config, args.source, saved)
    taken = list(reading.readings(config, wanted, saved=bool(saved), node=args.simulated))
    form = args.format or ("json" if saved else "table")
    sys.stdout.writelines(show.FORMS[form](taken, config))
    for one in taken:
        if one.outcome != "ok":
            logging.getLogger("tocsin.read").error(
                "%s could not be read: %s", one.source, one.error
            )
    not_understood = unread_lines(taken) if saved else []
    for reason in not_understood:
        logging.getLogger("tocsin.read").error("%s: %s", config.path.kernel_log, reason)
    return 0 if any(one.outcome == "ok" for one in taken) and not not_understood else 1


def unread_lines(taken: Sequence[Observation]) -> list[str]:
    """What is not understood of a saved kernel log: an answer without it may lack events."""
    return [unread.reason for one in taken if one.source == "kmsg" for unread in one.unread]


def from_saved(given: Inputs) -> list[str]:
    """Sources whose files the command line puts elsewhere."""
    names = {flag.path[1] for flag in given.flags if flag.path[0] == "path" and flag.value}
    return [source for path, source in SAVED.items() if path in names]


def chosen(config: Config, asked: Sequence[str], saved: Sequence[str]) -> Sequence[str]:
    """Names of the sources to read: those asked for, those of saved files, or
    all that are switched on.
    """
    known = type(config.sources).__struct_fields__
    for name in asked:
        if name not in known:
            raise ConfigError(
                f"--source: there is no source {name!r}; there are {', '.join(known)}"
            )
    return asked or saved or [name for name in known if getattr(config.sources, name).enabled]
