"""Kills of the gateway that reports, in the middle of an incident: how soon the other one reports,
and whether any incident is lost or reported twice.

Each round has a fault of its own at a host of its own, a SIGKILL at a random instant until 5 s
after it, and the killed gateway started again. An incident is lost where the gateway that took over
does not show it, or has dropped one of the rounds before; it is doubled where the two gateways know
a host's fault by more than one id, open or closed. ``--servers N`` are further rounds with three
NATS servers, in which the one that leads the lease dies at the same instant.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from gateway.lease import BUCKET
from tests.agents import AgentProcess
from tests.gateway.faults.brokers import leader_of, three
from tests.gateway.faults.cluster import Cluster, value
from tests.gateway.faults.hosts import Host, Reading
from tests.nats import Nats
from tests.wait import until

GOAL_S, SERVER_GOAL_S = 5.0, 15.0
SPREAD_S = 5.0  # an incident opens about 3 s after its fault: some kills come before, some after
TOGETHER = 8  # rounds of one cluster: of more faults within ten minutes it makes one incident
REMEMBERED = 3  # hosts of rounds before whose incidents must still be open


@dataclass(frozen=True, slots=True)
class Round:
    """``took_s`` from the kill until the other reports; ``shown_s`` until it shows the incident."""

    took_s: float
    shown_s: float
    lost: int
    doubled: int


class Kills:
    """A cluster whose leader is killed again and again."""

    def __init__(self, cluster: Cluster, servers: Sequence[Nats] = ()) -> None:
        self._cluster, self._servers = cluster, servers
        self._hosts: list[str] = []
        self._number = 0

    def round(self, seed: random.Random) -> Round:
        """One fault and one kill."""
        cluster, name = self._cluster, f"lost{self._number}"
        self._number += 1
        host = Host(cluster.urls, name)
        known = cluster.hosts("known")
        with Reading([host]):
            cluster.until(lambda: cluster.hosts("known") > known, "the host")
            leader, other = cluster.until(cluster.leader, "a leader"), cluster.follower()
            host.lose_gpu()
            time.sleep(seed.uniform(0, SPREAD_S))
            begun = time.monotonic()
            stopped = self._kill(leader)
            cluster.gateways[:] = [other]
            until(lambda: value(other, "tocsin_fleet_leader"), "the other", servers=[other])
            took_s = time.monotonic() - begun
            wanted = {name, *self._hosts[-REMEMBERED:]}
            until(lambda: name in cluster.open(), "the fault", servers=[other])
            shown_s, shown = time.monotonic() - begun, cluster.open()
            if stopped is not None:
                stopped.start()
            again = cluster.gateway(leader.storage.name)
            cluster.gateways.append(again)
            cluster.until(lambda: cluster.incidents(again, name), "the killed one to know it too")
        ids = [set().union(*(cluster.incidents(g, h) for g in cluster.gateways)) for h in wanted]
        self._hosts.append(name)
        return Round(took_s, shown_s, len(wanted - shown), sum(len(each) > 1 for each in ids))

    def _kill(self, leader: AgentProcess) -> Nats | None:
        """The gateway, and the server that leads its lease where there are several."""
        dying = leader_of(f"KV_{BUCKET}", self._servers) if self._servers else None
        leader.process.kill()
        if dying is not None:
            dying.stop()
        leader.process.wait()
        return dying


def _rounds(number: int, until_s: float, chance: random.Random, *, servers: bool) -> list[Round]:
    """So many, or as many as there is time for; each is printed when it is over."""
    done: list[Round] = []
    while len(done) < number and time.monotonic() < until_s:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            brokers = stack.enter_context(three(Path(folder))) if servers else []
            cluster = Cluster(Path(folder), stack, brokers)
            cluster.until(lambda c=cluster: c.leader() and c.hosts("known") >= 2, "both hosts")
            kills = Kills(cluster, brokers)
            for _ in range(min(TOGETHER, number - len(done))):
                if time.monotonic() < until_s:
                    done.append(kills.round(chance))
                    print(f"  {len(done)}: {done[-1]}", flush=True)
    return done


def _is_met(rounds: Sequence[Round], what: str, goal_s: float) -> bool:
    """Whether the goal is met."""
    if not rounds:
        return True
    took, shown = [each.took_s for each in rounds], [each.shown_s for each in rounds]
    lost, doubled = sum(each.lost for each in rounds), sum(each.doubled for each in rounds)
    late = sum(each > goal_s for each in took)
    print(
        f"{len(rounds)} kills of {what} (goal {goal_s:.0f} s): take-over p50 "
        f"{statistics.median(took):.1f} s, worst {max(took):.1f} s, {late} later than the goal; "
        f"the incident shown p50 {statistics.median(shown):.1f} s, worst {max(shown):.1f} s; "
        f"incidents lost {lost}, doubled {doubled}; load {os.getloadavg()[1]:.0f} on "
        f"{os.cpu_count()} cores"
    )
    return not (late or lost or doubled)


def main() -> int:
    """0 where every goal is met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=60.0, help="after which no round begins")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    until_s, chance = time.monotonic() + 60 * args.minutes, random.Random(args.seed)  # noqa: S311
    both = _rounds(args.servers, until_s, chance, servers=True)
    gateways = _rounds(args.kills, until_s, chance, servers=False)
    met = [
        _is_met(gateways, "the gateway", GOAL_S),
        _is_met(both, "the gateway and the lease's server", SERVER_GOAL_S),
    ]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
