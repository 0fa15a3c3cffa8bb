"""Sends what the agents of a simulated fleet would, host by host, at the pace of a fast clock: the
load of `make demo-fleet`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import secrets
from typing import Any

from nats.aio.client import Client

from evaluation.metrics.scope import ByHost
from gateway.stream_setup import make
from pipeline.bus import subjects
from pipeline.bus.batch import Batch, encode
from pipeline.clock import SECOND_NS, FastClock
from pipeline.judged import JudgedObservation
from simulator.fleet.scripted import DAYS

SEED = 1
MAX_BYTES = 1 << 30  # an hour of a few nodes fits into much less


class Host:
    """One agent's side of the bus."""

    def __init__(self, cluster: str, name: str) -> None:
        self.subject = subjects.frames(cluster, name)
        self.waiting: list[JudgedObservation] = []
        self._name, self._start = name, secrets.token_hex(16)
        self._number, self._previous = 0, -1

    def batch(self, sent_ns: int) -> bytes:
        """All that waits."""
        taken, self.waiting = tuple(self.waiting), []
        batch = Batch(self._name, self._start, self._number, self._previous, sent_ns, taken)
        self._number, self._previous = self._number + 1, taken[-1].observation.seq
        return encode(batch)

    def message_id(self) -> str:
        """Of the last batch."""
        return f"{self._start}:{self._number}"


async def play(args: Any) -> None:
    """The day, and what the nodes do after it."""
    client = Client()
    await client.connect([args.server], name="player")
    stream = client.jetstream()
    await make(client, args.cluster, 1, MAX_BYTES)
    clock = FastClock(args.speed, args.since, args.ago)
    by_host, hosts = ByHost(), dict[str, Host]()
    due_ns = args.begin + args.batch * SECOND_NS
    day = DAYS[args.day].run(args.begin, SEED, args.step)
    for observation in day.observations():
        if observation.time_ns >= due_ns:
            await asyncio.sleep(max(0, due_ns - clock.time_ns()) / SECOND_NS / args.speed)
            for host in hosts.values():
                if host.waiting:
                    payload = host.batch(due_ns)
                    headers = {"Nats-Msg-Id": host.message_id()}
                    await stream.publish(host.subject, payload, headers=headers)
            due_ns += args.batch * SECOND_NS
        for name, part in by_host.split(observation):
            if name not in hosts:
                hosts[name] = Host(args.cluster, name)
            hosts[name].waiting.append(JudgedObservation(part))
    await asyncio.Event().wait()


def _arguments() -> Any:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("server", "cluster", "day"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("begin", "since", "batch", "speed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("ago", "step"):
        parser.add_argument(f"--{name}", type=float, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(play(_arguments()))
