"""``tocsin simulate``: a simulated node on disk, and faults for one that runs."""

from __future__ import annotations

import argparse

NAME = "simulate"
USAGE = "simulate DIR [options]"
HELP = "Run a simulated GPU node, or inject faults into one that runs."
EXAMPLE = """\
Examples:
  tocsin simulate --list
  tocsin simulate /tmp/node --profile hgx-h100 --inject ecc_storm@gpu3+60s
  tocsin simulate /tmp/node --inject xid@gpu2:code=79          (into the one that runs there)"""


def options(parser: argparse.ArgumentParser) -> None:
    """The node's directory and what happens in it."""
    parser.add_argument("directory", nargs="?", metavar="DIR", help="where the node's files are")


def run(_args: argparse.Namespace) -> int:
    """Run until told to stop, or inject and return."""
    raise NotImplementedError
