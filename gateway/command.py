"""``tocsin gateway``: one verdict for a cluster, from what its agents send."""

from __future__ import annotations

import argparse
import logging

from collector.cli import logs
from collector.cli.options import add_settings, inputs
from collector.cli.parser import Parser
from collector.config.load import load

log = logging.getLogger("tocsin.gateway")

NAME = "gateway"
USAGE = "gateway [options]"
HELP = "Judge a whole cluster from what its agents send to the bus (in development)."
EXAMPLE = """\
Examples:
  tocsin gateway --config.file /etc/tocsin/gateway.yaml
  tocsin gateway --bus.servers nats://127.0.0.1:4222 --web.listen-address :9401

Sections used: bus, storage, web, detectors, log. docs/bus.md describes the bus."""


def options(parser: Parser) -> None:
    """All settings."""
    add_settings(parser)


def run(args: argparse.Namespace) -> int:
    """Run until it is stopped."""
    from gateway.service import main  # noqa: PLC0415 - the other commands need neither web server nor bus

    loaded = load(inputs(args))
    logs.set_up(loaded.config.log.level, loaded.config.log.format)
    for notice in loaded.notices:
        log.warning("%s", notice)
    return main(loaded.config)
