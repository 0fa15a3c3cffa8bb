"""`tocsin gateway` by a clock that runs many times as fast, for `make demo-fleet`.

The broker's clock does not run faster, so a message's time is the one at which its host sent it.
Nowhere else is a host's clock believed like that.
"""

from __future__ import annotations

import sys

from collector.cli import logs
from collector.cli.options import inputs
from collector.cli.parser import Parser
from collector.config.load import load
from gateway.command import options
from gateway.consumer import Message
from gateway.service import main
from gateway.timing import Timing
from pipeline.bus.batch import BatchError, decode
from pipeline.clock import SECOND_NS, FastClock

# A machine that is busy judges late; nothing is history to a rehearsal.
PRESENT_NS = 86400 * SECOND_NS


def sent_ns(message: Message) -> int:
    """When the host sent it."""
    try:
        return decode(message.payload).sent_ns
    except BatchError:
        return message.stored_ns


def run() -> int:
    """Until a signal."""
    parser = Parser(prog="fast_gateway")
    options(parser)
    parser.add_argument("--speed", type=int, required=True)
    parser.add_argument("--since", type=int, required=True)
    parser.add_argument("--ago", type=float, required=True)
    parser.add_argument("--server", required=True)
    parser.add_argument("--cluster", required=True)
    more = parser.parse_args()
    args = parser.parse_args(
        [*sys.argv[1:], "--bus.servers", more.server, "--bus.cluster", more.cluster]
    )
    loaded = load(inputs(args))
    logs.set_up(loaded.config.log.level, loaded.config.log.format)
    clock = FastClock(args.speed, args.since, args.ago)
    return main(loaded.config, Timing(clock, sent_ns, PRESENT_NS, by_messages=True))


if __name__ == "__main__":
    sys.exit(run())
