"""``tocsin explain``: why somebody was told, from what the store has kept."""

from __future__ import annotations

import argparse

from collector.cli.options import add_settings

NAME = "explain"
USAGE = "explain ID [--plot FILE.svg] [--storage.path DIR]"
HELP = "Say why an incident or a finding was told: the rule, the numbers, the reference and the next step."
EXAMPLE = """\
Examples:
  tocsin explain 8f14e45fceea167a
  tocsin explain 8f14e4 --plot evidence.svg
  tocsin explain 8f14e45fceea167a --storage.path s3://bucket/fleet

Ids stand in the log, on the page and in `tocsin query "SELECT id, summary FROM incidents"`; a unique beginning is enough."""


def options(parser: argparse.ArgumentParser) -> None:
    """Which case, and where to draw it."""
    parser.add_argument("id", metavar="ID", help="incident or finding: its id, or the beginning of it")
    parser.add_argument("--plot", default="", metavar="FILE.svg", help="also draw the evidence")
    add_settings(parser, only=("storage",))


def run(args: argparse.Namespace) -> int:
    """Look it up, say it, draw it; 1 where it is not in the store."""
    from collector.cli.explain_run import explain  # noqa: PLC0415 - it needs polars, the other commands do not

    return explain(args)
