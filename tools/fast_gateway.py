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
from pipeline.clock import SECOND_NS, Clock, FastClock

# A machine that is busy judges late, and a rehearsal may be of weeks: nothing is history to it.
PRESENT_NS = 366 * 86400 * SECOND_NS


class Sent:
    """When the hosts sent, and a clock that shows the batch before the last: between two batches
    half a second passes, and minutes of the fleet's time.
    """

    def __init__(self, clock: Clock, period_ns: int) -> None:
        self._clock, self._period_ns = clock, period_ns
        self._newest_ns = 0

    def of(self, message: Message) -> int:
        """When the host sent a message."""
        try:
            sent_ns = decode(message.payload).sent_ns
        except BatchError:
            return message.stored_ns
        self._newest_ns = max(self._newest_ns, sent_ns)
        return sent_ns

    def time_ns(self) -> int:
        """Of the fleet."""
        return self._newest_ns - self._period_ns if self._newest_ns else self._clock.time_ns()

    def monotonic_ns(self) -> int:
        """Of the fleet."""
        return self._clock.monotonic_ns()


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
    sent = Sent(clock, round(float(loaded.config.bus.period) * SECOND_NS))
    timing = Timing(clock, sent.of, PRESENT_NS, by_messages=True, shown=sent)
    return main(loaded.config, timing)


if __name__ == "__main__":
    sys.exit(run())
