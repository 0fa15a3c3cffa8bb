"""`tocsin gateway` by the time of recorded messages, which passes at any pace: what is sent to the
broker is as old as it says.
"""

from __future__ import annotations

import sys
import time

from collector.cli import logs
from collector.cli.options import inputs
from collector.cli.parser import Parser
from collector.config.load import load
from gateway.command import options
from gateway.consumer import Message
from gateway.service import main
from gateway.timing import Timing
from pipeline.clock import FastClock


class Stored:
    """When the broker stored a message, by the paced clock."""

    def __init__(self, clock: FastClock) -> None:
        self._clock = clock

    def of(self, message: Message) -> int:
        """Unix time of the messages."""
        return self.at(message.stored_ns)

    def at(self, broker_ns: int) -> int:
        """A time of the broker."""
        passed_ns = (time.time_ns() - broker_ns) * self._clock.speed
        return self._clock.time_ns() - round(passed_ns)


def run() -> int:
    """Until a signal. ``--since`` (CLOCK_MONOTONIC, ns) is when the first message is sent."""
    parser = Parser(prog="paced_gateway")
    options(parser)
    parser.add_argument("--pace", type=float, required=True)
    parser.add_argument("--since", type=int, required=True)
    parser.add_argument("--ago", type=float, required=True)
    args = parser.parse_args([argument for argument in sys.argv[1:] if argument != "gateway"])
    loaded = load(inputs(args))
    logs.set_up(loaded.config.log.level, loaded.config.log.format)
    clock = FastClock(args.pace, args.since, args.ago)
    stored = Stored(clock)
    return main(loaded.config, Timing(clock, stored.of, broker_ns=stored.at))


if __name__ == "__main__":
    sys.exit(run())
