"""``tocsin read``: one reading of each source, for people and for saved trees and logs."""

from __future__ import annotations

import argparse

from collector.cli.options import add_settings

NAME = "read"
USAGE = "read [--source NAME] [--format table|json|prometheus] [options]"
HELP = "Read each source once and print what it gave."
EXAMPLE = """\
Examples:
  tocsin read
  tocsin read --source infiniband --path.sysfs ./saved/sys --format json
  tocsin read --source kmsg --path.kmsg ./dmesg.txt --format json"""


def options(parser: argparse.ArgumentParser) -> None:
    """Which source, in which form, from where."""
    parser.add_argument("--source", action="append", default=[], metavar="NAME", help="only this source; repeatable")
    parser.add_argument("--format", choices=("table", "json", "prometheus"), default="table", help="form of the output (table)")
    add_settings(parser, only=("path", "sources", "exposition", "simulate", "topology"))


def run(_args: argparse.Namespace) -> int:
    """Read and print."""
    raise NotImplementedError
