"""``tocsin explain``: an incident or finding, from the store."""

from __future__ import annotations

import argparse

from collector.cli.options import add_settings
from collector.cli.parser import Parser

NAME = "explain"
USAGE = "explain ID [--plot FILE.svg] [--storage.path DIR]"
HELP = "Explain an incident or finding: rule, numbers, reference and next step."
EXAMPLE = """\
Examples:
  tocsin explain latest                         (the incident that opened last)
  tocsin explain 8f14e45f
  tocsin explain 8f14e4 --plot evidence.svg
  tocsin explain 8f14e45f --storage.path s3://bucket/fleet

Ids are in the log, on the status page and in `tocsin query "SELECT id, summary FROM incidents"`.
The first characters of an id are enough, if they are unambiguous."""


def options(parser: Parser) -> None:
    """Which case, and where to draw it."""
    parser.add_argument(
        "id", metavar="ID", help="incident or finding: id, its first characters, or latest"
    )
    parser.add_argument("--plot", default="", metavar="FILE.svg", help="also plot the evidence")
    add_settings(parser, only=("storage",))


def run(args: argparse.Namespace) -> int:
    """Look it up, say it, draw it; 1 where it is not in the store."""
    from collector.cli.explain_run import explain  # noqa: PLC0415 - it needs polars, the other commands do not

    return explain(args)
