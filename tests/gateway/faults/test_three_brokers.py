"""Faults of one of three servers, which lead what they store: the one of the lease dies."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from nats import errors
from nats.js.errors import APIError

from gateway.lease import BUCKET
from tests.gateway.faults.brokers import leader_of, three
from tests.gateway.faults.cluster import Cluster
from tests.gateway.faults.measured import Measured
from tests.gateway.faults.watch import Watch
from tests.nats import Nats
from tests.wait import until

pytestmark = [
    pytest.mark.integration,
    # Of what conftest.py collects.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
LEASE = f"KV_{BUCKET}"


class Three:
    """Three servers and two gateways."""

    def __init__(self, servers: list[Nats], cluster: Cluster) -> None:
        self.servers, self.cluster = servers, cluster

    def kill_leader(self) -> tuple[Nats, list[Nats]]:
        """The server that leads the lease dies; it, and the others."""
        dying = leader_of(LEASE, self.servers)
        dying.stop()
        return dying, [each for each in self.servers if each is not dying]

    def near_has(self, server: Nats, number: int) -> bool:
        """Whether the stream has all that the host read; nobody knows while the servers vote."""
        try:
            return {*range(number)} <= {*self.cluster.arrived("near", server)}
        except (errors.Error, APIError):
            return False


@pytest.fixture(scope="module")
def three_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    """Servers, gateways and hosts that see each other."""
    folder = tmp_path_factory.mktemp("three")
    with ExitStack() as stack:
        servers = stack.enter_context(three(folder))
        cluster = Cluster(folder, stack, servers)
        cluster.until(lambda: cluster.leader() and cluster.hosts("known") >= 2, "both hosts")
        yield Three(servers, cluster)


def test_one_broker_of_three_costs_nothing(three_brokers: Three, measured: Measured) -> None:
    """Agents and gateways go to another one, and each reading is there."""
    near = three_brokers.cluster.near
    with Watch(lambda: three_brokers.cluster.gateways) as watch:
        dying, others = three_brokers.kill_leader()
        assert leader_of(LEASE, three_brokers.servers) is not dying
        read = near.observed
        until(lambda: three_brokers.near_has(others[0], read), "what was read", servers=others)
        measured.lost(near.dropped)
        measured.silent(watch)
    dying.start()


def test_a_gateway_that_dies_with_the_server_of_its_lease_is_followed(
    three_brokers: Three, measured: Measured
) -> None:
    """By the other one, which reports what happens meanwhile; the one that died is told of it."""
    cluster = three_brokers.cluster
    leader, other = cluster.until(cluster.leader, "a leader"), cluster.follower()
    with Watch(lambda: cluster.gateways) as watch:
        begun_s = time.monotonic()
        leader.process.kill()
        dying, others = three_brokers.kill_leader()
        leader.process.wait()
        cluster.near.lose_gpu()
        cluster.gateways[:] = [other]
        until(lambda: "near" in cluster.open(), "its fault", servers=[other, *others])
        assert watch.silences()[0].begun_s > begun_s - 5
        measured.lost(cluster.near.dropped)
        measured.silent(watch)
    dying.start()
