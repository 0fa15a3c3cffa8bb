"""The gateway as a process, with real agents of simulated nodes and a real NATS server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from collector.replaying.stored import Span, stored
from pipeline.arrival_cut import ArrivalCut
from tests.agents import AgentProcess
from tests.nats import Nats
from tests.wait import until

pytestmark = pytest.mark.integration
BUS = ("--bus.servers", "{url}", "--bus.cluster", "c1", "--bus.period", "1s")


class Cluster:
    """Processes around a server, all in one folder."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self.server = stack.enter_context(Nats(folder / "nats"))
        self.server.stream()
        self._bus = tuple(word.format(url=self.server.url) for word in BUS)

    def agent(self, host: str, *arguments: str) -> AgentProcess:
        """An agent of a simulated node."""
        simulated = ("--simulate.profile", "hgx-h100", *arguments)
        return self._started(host, "agent", *simulated, environ={"NODE_NAME": host})

    def gateway(self, name: str) -> AgentProcess:
        """A gateway."""
        return self._started(name, "gateway")

    def _started(
        self, name: str, command: str, *arguments: str, environ: dict[str, str] | None = None
    ) -> AgentProcess:
        return self._stack.enter_context(
            AgentProcess(
                self._folder / name, *self._bus, *arguments, environ=environ, command=command
            )
        )


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A broker with the stream of docs/bus.md."""
    with ExitStack() as stack:
        yield Cluster(tmp_path, stack)


def leads(gateway: AgentProcess) -> bool:
    """Whether it speaks."""
    return gateway.values("tocsin_fleet_leader") == {"": 1.0}


def open_on(gateway: AgentProcess) -> set[str]:
    """Hosts with an open incident, by the gateway."""
    found = gateway.values("tocsin_fleet_incident_active")
    return {labels.partition('host="')[2].partition('"')[0] for labels in found}


def test_a_fault_of_one_agent_is_an_incident_of_the_cluster(cluster: Cluster) -> None:
    """By its host; the log has it, the other host has none, and its own store has all of it."""
    gateway = cluster.gateway("g1")
    agents = [cluster.agent("n1"), cluster.agent("n2", "--simulate.inject", "gpu_lost@gpu3+20s")]
    servers = [gateway, *agents]
    known = "tocsin_fleet_hosts"
    until(lambda: gateway.values(known).get('state="known"') == 2, "both hosts", servers=servers)
    until(lambda: open_on(gateway) == {"n2"}, "the incident", servers=servers)
    until(lambda: "tocsin.incident" in gateway.log, "its line", servers=servers)
    status, text = gateway.get("/api/v1/incidents")
    assert status == 200
    assert "n2" in text
    assert gateway.values("tocsin_fleet_batches_refused_total") == {"": 0.0}
    assert gateway.values("tocsin_incident_active") == {}, "the agent's series, and its alert"
    assert gateway.stop() == 0
    kept = [*stored(gateway.storage, Span())]
    assert {each.observation.host for each in kept} == {"gateway"}
    assert "n2" in {finding.device.host for each in kept for finding in each.findings}
    cut = ArrivalCut(event for each in kept for event in each.observation.events)
    assert cut.hosts == {"n1", "n2"}


def test_of_two_gateways_one_speaks_and_the_other_takes_over(cluster: Cluster) -> None:
    """With the incident that was open, as it judged all along."""
    agent = cluster.agent("n1", "--simulate.inject", "gpu_lost@gpu3+10s")
    first = cluster.gateway("g1")
    until(lambda: leads(first), "a leader", servers=[agent, first])
    second = cluster.gateway("g2")
    until(lambda: open_on(first) == {"n1"}, "the incident", servers=[agent, first, second])
    assert not leads(second)
    assert open_on(second) == set()
    first.process.kill()
    until(lambda: leads(second) and open_on(second) == {"n1"}, "the other", servers=[second])
    until(lambda: "tocsin.incident" in second.log, "its line", servers=[second])


def test_a_gateway_without_a_bus_does_not_start(tmp_path: Path) -> None:
    """It says which setting is missing."""
    with AgentProcess(tmp_path / "g1", command="gateway") as gateway:
        until(gateway.death, "its end")
        assert "bus.servers" in gateway.log
        assert gateway.process.wait() == 1
