"""A network partition: half of the agents are in a network namespace that loses its way to the
broker without a word, as with a switch that fails. No packet is refused: they vanish.

Real publishers in processes of their own, a real broker and two real gateways.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from collector.bus.outbox import KEPT_NS
from pipeline.clock import SECOND_NS
from tests.gateway.faults.cluster import Cluster
from tests.gateway.faults.hosts import STEP_S
from tests.gateway.faults.measured import Measured
from tests.gateway.faults.watch import Watch
from tests.nats import Nats
from tests.parts import need
from tests.sources import ROOT

pytestmark = [
    pytest.mark.integration,
    pytest.mark.root,
    # Of what conftest.py collects.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

# Of this process: a run beside another has its own.
KEPT_S = KEPT_NS / SECOND_NS
NAMESPACE, HERE, THERE = (f"cut{os.getpid()}{end}" for end in ("", "a", "b"))
# The range for benchmarks (RFC 2544), which no machine routes.
OURS, THEIRS = "198.18.77.1", "198.18.77.2"
AGENTS = """
import sys, threading
from tests.gateway.faults.hosts import Host, Reading
hosts = [Host(sys.argv[1], name) for name in sys.argv[2:]]
with Reading(hosts):
    for line in sys.stdin:
        if line == "lose\\n":
            hosts[0].lose_gpu()
        dropped = sum(host.dropped for host in hosts)
        print(dropped, sum(host.connected for host in hosts), flush=True)
"""


def ip(*arguments: str) -> None:
    """Of iproute2; the test is skipped where the kernel or its rights do not have it."""
    done = subprocess.run([need("ip", "iproute2"), *arguments], check=False, capture_output=True)
    if done.returncode:
        pytest.skip(f"ip {' '.join(arguments)}: {done.stderr.decode().strip()}")


@pytest.fixture
def namespace() -> Iterator[None]:
    """A network namespace with one line to us."""
    ip("netns", "add", NAMESPACE)
    try:
        ip("link", "add", HERE, "type", "veth", "peer", "name", THERE, "netns", NAMESPACE)
        ip("address", "add", f"{OURS}/24", "dev", HERE)
        ip("link", "set", HERE, "up")
        ip("-n", NAMESPACE, "address", "add", f"{THEIRS}/24", "dev", THERE)
        ip("-n", NAMESPACE, "link", "set", THERE, "up")
        yield
    finally:
        subprocess.run([need("ip", "iproute2"), "netns", "delete", NAMESPACE], check=True)


class Agents:
    """Agents in the namespace."""

    def __init__(self, url: str, *names: str) -> None:
        argv = ["netns", "exec", NAMESPACE, sys.executable, "-c", AGENTS, url, *names]
        self.process = subprocess.Popen(
            [need("ip", "iproute2"), *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def __enter__(self) -> Agents:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def ask(self, what: str = "") -> tuple[int, int]:
        """Observations that they dropped, and how many are connected."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        dropped, connected = self.process.stdout.readline().split()
        return int(dropped), int(connected)


@pytest.mark.usefixtures("namespace")
def test_half_of_the_agents_behind_a_partition(tmp_path: Path, measured: Measured) -> None:
    """The others are judged meanwhile; theirs is judged when the network is back, with the fault
    that happened meanwhile, and what is younger than a minute is not dropped.
    """
    with ExitStack() as stack:
        server = stack.enter_context(Nats(tmp_path / "nats", host="0.0.0.0"))
        server.stream()
        cluster = Cluster(tmp_path, stack, [server])
        agents = stack.enter_context(Agents(f"nats://{OURS}:{server.port}", "cut0", "cut1"))
        cluster.until(lambda: cluster.leader() and cluster.hosts("known") == 4, "all hosts")
        watch = stack.enter_context(Watch(lambda: cluster.gateways))
        ip("link", "set", HERE, "down")
        begun = time.monotonic()
        agents.ask("lose")
        cluster.near.lose_gpu()
        cluster.until(lambda: "near" in cluster.open(), "the fault on this side")
        assert "cut0" not in cluster.open()
        cluster.until(lambda: agents.ask() == (0, 0), "the agents to notice")
        ip("link", "set", HERE, "up")
        cluster.until(lambda: "cut0" in cluster.open(), "the fault on the other side")
        cluster.until(lambda: agents.ask()[1] == 2, "both agents")
        dropped, _ = agents.ask()
        # Packets are sent again at growing distances: on a busy machine a minute may pass.
        older = max(0.0, time.monotonic() - begun - KEPT_S) * 2 / STEP_S
        measured.lost(max(0.0, dropped - older) + cluster.near.dropped)
        measured.silent(watch)
