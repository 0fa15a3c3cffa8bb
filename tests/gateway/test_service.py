"""The gateway as a process, with real agents of simulated nodes and a real NATS server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar
from unittest.mock import Mock

import pytest

from collector.config.raw_setting import ConfigError
from collector.config.settings import Bus, Config, Storage
from collector.config.units import Seconds
from collector.replaying.stored import Span, stored
from gateway.service import Gateway
from gateway.timing import Timing
from pipeline.arrival_cut import ArrivalCut
from tests.agents import AgentProcess
from tests.fakes import FakeClock
from tests.gateway.faults.measured import Measured
from tests.gateway.faults.watch import Watch
from tests.nats import Nats
from tests.wait import PATIENCE_S, until

pytestmark = pytest.mark.integration
T = TypeVar("T")
BUS = ("--bus.servers", "{url}", "--bus.cluster", "c1", "--bus.period", "1s")


class Cluster:
    """Processes around a server, all in one folder."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self.server = stack.enter_context(Nats(folder / "nats"))
        self.server.stream()
        self._bus = tuple(word.format(url=self.server.url) for word in BUS)

        fault = ("--simulate.inject", "gpu_lost@gpu3+15s")
        self.agents = [self._agent("n1"), self._agent("n2", *fault)]
        self.gateways = [self._started(name, "gateway") for name in ("g1", "g2")]

    def until(self, condition: Callable[[], T], what: str) -> T:
        """The first true answer, while the processes run."""
        return until(condition, what, servers=[self.server, *self.agents, *self.gateways])

    def leader(self) -> AgentProcess:
        """The gateway that leads, once one does."""
        found = self.until(lambda: [each for each in self.gateways if leads(each)], "a leader")
        return found[0]

    def follower(self) -> AgentProcess:
        """The other one."""
        (other,) = [each for each in self.gateways if not leads(each)]
        return other

    def _agent(self, host: str, *arguments: str) -> AgentProcess:
        """An agent of a simulated node."""
        simulated = ("--simulate.profile", "hgx-h100", *arguments)
        return self._started(host, "agent", *simulated, environ={"NODE_NAME": host})

    def _started(
        self, name: str, command: str, *arguments: str, environ: dict[str, str] | None = None
    ) -> AgentProcess:
        return self._stack.enter_context(
            AgentProcess(
                self._folder / name, *self._bus, *arguments, environ=environ, command=command
            )
        )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker, two gateways, and two agents of which the second one loses a GPU."""
    with ExitStack() as stack:
        made = Cluster(tmp_path_factory.mktemp("service"), stack)
        yield made


def leads(gateway: AgentProcess) -> bool:
    """Whether it leads."""
    return gateway.values("tocsin_fleet_leader") == {"": 1.0}


def known(gateway: AgentProcess) -> float:
    """Hosts that have sent."""
    return gateway.values("tocsin_fleet_hosts").get('state="known"', 0.0)


def open_on(gateway: AgentProcess) -> set[str]:
    """Hosts with an open incident, by the gateway."""
    found = gateway.values("tocsin_fleet_incident_active")
    return {labels.partition('host="')[2].partition('"')[0] for labels in found}


def test_of_two_gateways_one_leads_and_the_other_takes_over(
    cluster: Cluster, measured: Measured
) -> None:
    """With the incident that was open, as it judged all along."""
    first, second = cluster.leader(), cluster.follower()
    cluster.until(lambda: open_on(first) == {"n2"}, "the incident")
    cluster.until(lambda: known(second) == 2, "both hosts at the other")
    assert open_on(second) == set()
    with Watch(lambda: cluster.gateways) as watch:
        first.process.kill()
        first.process.wait()
        cluster.gateways[:] = [second]
        cluster.until(lambda: open_on(second) == {"n2"}, "the other")
        cluster.until(lambda: "tocsin.incident" in second.log, "its line")
        measured.lost(len({"n2"} - open_on(second)))
        measured.silent(watch)


def test_a_fault_of_one_agent_is_an_incident_of_the_cluster(cluster: Cluster) -> None:
    """By its host; the log has it, the other host has none, and its own store has all of it."""
    gateway = cluster.leader()
    cluster.until(lambda: known(gateway) == 2, "both hosts")
    cluster.until(lambda: open_on(gateway) == {"n2"}, "the incident")
    cluster.until(lambda: "tocsin.incident" in gateway.log, "its line")
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


def test_a_gateway_without_a_bus_does_not_start(tmp_path: Path) -> None:
    """It says which setting is missing."""
    with AgentProcess(tmp_path / "g1", command="gateway") as gateway:
        until(gateway.death, "its end")
        assert "bus.servers" in gateway.log
        assert gateway.process.wait() == 1


def test_a_gateway_is_ready_before_any_agent_sends(tmp_path: Path) -> None:
    """It waits for its bus, not for agents: who installs both waits for it first."""
    with Nats(tmp_path / "nats") as server, ExitStack() as stack:
        bus = tuple(word.format(url=server.url) for word in BUS)
        gateway = stack.enter_context(AgentProcess(tmp_path / "g1", *bus, command="gateway"))
        gateway.until(lambda: gateway.get("/-/healthy")[0] == 200, "its pages")
        gateway.until(lambda: "stream not found" in gateway.log, "the missing stream")
        assert gateway.get("/-/ready")[0] == 503
        server.stream()
        gateway.until(lambda: gateway.get("/-/ready")[0] == 200, "the empty stream")
        assert known(gateway) == 0
        assert not leads(gateway)


def test_a_gateway_is_ready_while_it_keeps_up_with_the_bus(tmp_path: Path) -> None:
    """Whether messages come that are all refused, as those of old agents after an upgrade, or
    none; not while neither a message of now nor the server says so.
    """
    clock = FakeClock()
    config = Config(bus=Bus(servers=("nats://127.0.0.1:1",)), storage=Storage(path=str(tmp_path)))
    gateway = Gateway(config, "g1", Timing(clock))
    gateway._resumed = True
    bus = Mock(client=Mock(is_closed=False), trouble="", read_ns=0)

    def ready_after(seconds: float, *, read_ns: int = 0, stored_ns: int = 0) -> bool:
        clock.advance(seconds)
        bus.read_ns = read_ns or bus.read_ns
        gateway._stored_ns = stored_ns or gateway._stored_ns
        asyncio.run(gateway._look(bus))
        return gateway._idle

    assert not ready_after(1)
    assert ready_after(1, stored_ns=clock.time_ns())
    assert not ready_after(60)
    assert ready_after(1, read_ns=clock.time_ns())
    assert not ready_after(60)
    assert ready_after(1, read_ns=clock.time_ns() - 60 * 10**9), "another server leads"


def test_a_period_with_which_a_gateway_would_never_report_is_refused() -> None:
    """Seconds close after a period, and what is older than 15 s is not reported."""
    bus = Bus(servers=("nats://127.0.0.1:1",), period=Seconds(12))
    with pytest.raises(ConfigError, match=r"bus\.period: 12s is longer than 10s"):
        Gateway(Config(bus=bus), "g1")


def test_a_gateway_that_waits_for_its_bus_does_not_hang(tmp_path: Path) -> None:
    """The service manager does not end it for that: its watchdog goes on."""
    clock = FakeClock()
    storage = Storage(path=str(tmp_path))
    config = Config(bus=Bus(servers=("nats://127.0.0.1:1",)), storage=storage)

    async def story() -> None:
        gateway = Gateway(config, "g1", Timing(clock))
        working = asyncio.create_task(gateway._work())
        for _ in range(2):
            clock.advance(3600)
            async with asyncio.timeout(PATIENCE_S):
                while gateway._looked_ns != clock.monotonic_ns():  # noqa: ASYNC110 - it looks
                    await asyncio.sleep(0.01)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working

    asyncio.run(story())


def test_a_connection_that_the_server_ended_for_good_is_made_again(tmp_path: Path) -> None:
    """With the credentials that the file holds by then; the gateway reads on, and leads again."""
    file = tmp_path / "bus.creds"
    with Nats(tmp_path / "nats", secured=True) as server, ExitStack() as stack:
        server.stream()
        server.credentials().rename(file)
        bus = (*(word.format(url=server.url) for word in BUS), "--bus.credentials-file", str(file))
        simulated = ("--simulate.profile", "hgx-h100")
        stack.enter_context(AgentProcess(tmp_path / "n1", *bus, *simulated))
        gateway = stack.enter_context(AgentProcess(tmp_path / "g1", *bus, command="gateway"))

        def batches() -> float:
            return gateway.values("tocsin_fleet_batches_total").get("", 0.0)

        def connected() -> bool:
            return gateway.values("tocsin_fleet_bus_connected") == {"": 1.0}

        gateway.until(lambda: leads(gateway), "a leader")
        server.revoke()
        gateway.until(lambda: not connected() and not leads(gateway), "the loss")
        read = batches()
        gateway.until(lambda: "authentication revoked" in gateway.log.lower(), "the reason")
        server.credentials().rename(file)
        gateway.until(connected, "the connection")
        gateway.until(lambda: batches() > read, "another message")
        gateway.until(lambda: leads(gateway), "a leader")
        assert gateway.stop() == 0
