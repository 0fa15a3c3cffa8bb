"""``tocsin check-config``: validate without starting, and show what is in force
and where it comes from.
"""

from __future__ import annotations

import argparse
import os
import sys

from collector.cli.options import add_dcgm, add_settings, inputs
from collector.cli.parser import Parser
from collector.config.load import load
from collector.config.settings import Topology
from collector.config.show import effective
from collector.node.privileges import report

NAME = "check-config"
USAGE = "check-config [FILE] [options of the agent]"
HELP = "Validate the configuration and print the effective values with their origins."
EXAMPLE = """\
Examples:
  tocsin check-config /etc/tocsin/config.yaml
  TOCSIN_LOG__LEVEL=debug tocsin check-config --compat both"""


def options(parser: Parser) -> None:
    """A file, and every option of the agent."""
    parser.add_argument(
        "file", nargs="?", default="", metavar="FILE", help="YAML file, as --config.file"
    )
    parser.add_argument(
        "--privileges",
        action="store_true",
        help="also report what this process, or the helper, may not read (docs/security.md)",
    )
    add_settings(parser)
    add_dcgm(parser)


def run(args: argparse.Namespace) -> int:
    """Print the effective configuration, or raise ConfigError."""
    args.config_file = args.file or args.config_file
    loaded = load(inputs(args))
    _check_topology(loaded.config.topology)
    print(effective(loaded), end="")
    for notice in loaded.notices:
        print(f"tocsin: {notice}", file=sys.stderr)
    if args.privileges:
        print("\n".join(f"# {line}" for line in report(loaded.config)))
    return 0


def _check_topology(section: Topology) -> None:
    """ConfigError where its file is none with which the agent could start."""
    if section.file or section.labels_file:
        from collector.agent.environment import host_name  # noqa: PLC0415 - only who has one pays for the sources
        from collector.agent.sources import topology_of  # noqa: PLC0415

        topology_of(section, host_name(os.environ))
