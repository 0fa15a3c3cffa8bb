"""``tocsin agent``: the process that runs on every node."""

from __future__ import annotations

import argparse
import logging

from collector.cli import logs, version
from collector.cli.options import add_dcgm, add_settings, inputs
from collector.cli.parser import Parser
from collector.config.load import Inputs, Loaded, load
from collector.config.raw_setting import ConfigError
from collector.config.settings import Log

log = logging.getLogger("tocsin.agent")

NAME = "agent"
USAGE = "agent [options]"
HELP = "Monitor this node: read its hardware, detect faults, serve Prometheus on :9400."
EXAMPLE = """\
Examples:
  tocsin agent --web.listen-address :9400
  tocsin agent --simulate hgx-h100 --web.listen-address 127.0.0.1:19400 --storage.path /tmp/tocsin
  tocsin agent -f /etc/dcgm-exporter/default-counters.csv -a :9400     (dcgm-exporter's own flags)

Settings come from the YAML file, then the environment, then flags; the last one given wins.
`tocsin check-config` prints the result."""


def options(parser: Parser) -> None:
    """All settings, and dcgm-exporter's flags."""
    parser.add_argument("-v", "--version", action="version", version=version.text())
    add_settings(parser)
    add_dcgm(parser)


def run(args: argparse.Namespace) -> int:
    """Run until it is stopped."""
    from collector.agent.agent import main  # noqa: PLC0415 - the other commands need neither web server nor sources

    given = inputs(args)
    first = loaded(given)
    _set_up_log(first.config.log)
    for notice in first.notices:
        log.warning("%s", notice)
    return main(first.config, lambda: loaded(given).config, _set_up_log)


def _set_up_log(section: Log) -> None:
    logs.set_up(section.level, section.format)


def loaded(given: Inputs) -> Loaded:
    """ConfigError where users are to see a part: an agent's pages would show them all of a node."""
    found = load(given)
    if found.config.web.tenants:
        raise ConfigError("web.tenants: is for the gateway; an agent shows its whole node")
    return found
