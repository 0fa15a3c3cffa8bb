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
  tocsin gateway --config.file /etc/tocsin/gateway.yaml --create-stream   (once per cluster)

Sections used: bus, gateway, storage, web, detectors, log. docs/bus.md describes the bus."""


def options(parser: Parser) -> None:
    """All settings, and what the bus needs once."""
    parser.add_argument(
        "--create-stream",
        action="store_true",
        help="create the stream of the bus, unless it exists, and exit",
    )
    parser.add_argument(
        "--stream-replicas",
        type=int,
        default=3,
        metavar="N",
        help="servers that keep it (default: 3; 1 on a single server)",
    )
    parser.add_argument(
        "--stream-bytes",
        type=int,
        default=20_000_000_000,
        metavar="N",
        help="its size limit per server (default: 20 GB, an hour of 2,000 nodes)",
    )
    add_settings(parser)


def run(args: argparse.Namespace) -> int:
    """Run until it is stopped."""
    # The other commands need neither web server nor bus.
    from gateway import service, stream_setup  # noqa: PLC0415

    loaded = load(inputs(args))
    logs.set_up(loaded.config.log.level, loaded.config.log.format)
    for notice in loaded.notices:
        log.warning("%s", notice)
    if args.create_stream:
        return stream_setup.run(loaded.config.bus, args.stream_replicas, args.stream_bytes)
    return service.main(loaded.config)
