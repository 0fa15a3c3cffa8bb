"""Two real gateways, a real broker, and agents of which half are behind a line that can be cut."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pipeline.bus import subjects
from pipeline.bus.batch import Batch, decode
from tests.agents import AgentProcess
from tests.gateway.faults.hosts import CLUSTER, Host, Reading
from tests.nats import Nats
from tests.tcp_proxy import TcpProxy
from tests.wait import until


class Cluster:
    """A broker (or ``servers``, with the stream), gateways, and hosts ``near`` and ``far`` that
    read all the time.
    """

    def __init__(self, folder: Path, stack: ExitStack, servers: Sequence[Nats] = ()) -> None:
        self._folder, self._stack = folder, stack
        self.server = servers[0] if servers else stack.enter_context(Nats(folder / "nats"))
        self.urls = [each.url for each in servers or [self.server]]
        if not servers:
            self.server.stream()
        self.line = stack.enter_context(TcpProxy(self.server.port))
        self.near, self.far = Host(self.urls, "near"), Host(self.line.url, "far")
        stack.enter_context(Reading([self.near, self.far]))
        self.gateways = [self.gateway("g1"), self.gateway("g2")]

    def gateway(self, name: str) -> AgentProcess:
        """One, with the store that this name had before."""
        urls = [part for url in self.urls for part in ("--bus.servers", url)]
        bus = (*urls, "--bus.cluster", CLUSTER, "--bus.period", "1s")
        return self._stack.enter_context(AgentProcess(self._folder / name, *bus, command="gateway"))

    def until(self, condition: Any, what: str) -> Any:
        """The first true answer, while the processes run."""
        return until(condition, what, servers=[self.server, *self.gateways])

    def leader(self) -> AgentProcess | None:
        """The gateway that reports; None while agents alert for themselves."""
        leads = [g for g in self.gateways if value(g, "tocsin_fleet_leader")]
        assert len(leads) < 2
        return leads[0] if leads else None

    def follower(self) -> AgentProcess:
        """The other one, once one reports."""
        leader = self.until(self.leader, "a leader")
        return next(each for each in self.gateways if each is not leader)

    def hosts(self, state: str) -> float:
        """So many in a state, as the leader counts them."""
        leader = self.until(self.leader, "a leader")
        return value(leader, "tocsin_fleet_hosts", f'state="{state}"')

    def open(self) -> set[str]:
        """Hosts with an open incident."""
        leader = self.leader()
        series = leader.values("tocsin_fleet_incident_active") if leader else {}
        return {labels.partition('host="')[2].partition('"')[0] for labels in series}

    def incidents(self, gateway: AgentProcess, host: str) -> set[str]:
        """Ids of all incidents of a host that a gateway knows, open or closed."""
        status, text = gateway.get(f"/api/v1/incidents?state=all&host={host}")
        assert status == 200, text
        return {row["id"] for row in json.loads(text)["incidents"]}

    def batches(self, host: str, server: Nats | None = None) -> list[Batch]:
        """What a host sent, as the stream has it."""
        stored = (server or self.server).stored(subjects.frames(CLUSTER, host))
        return [decode(raw) for _, raw in stored]

    def arrived(self, host: str, server: Nats | None = None) -> list[int]:
        """Numbers of a host's readings in the stream."""
        found = self.batches(host, server)
        return [judged.observation.seq for batch in found for judged in batch.judged]

    @property
    def missed(self) -> float:
        """Batches that gateways know to have been sent, and never got."""
        return sum(value(each, "tocsin_fleet_batches_missed_total") for each in self.gateways)

    @staticmethod
    def judged_s(gateway: AgentProcess) -> float:
        """The last second that a gateway has judged, unix."""
        return value(gateway, "tocsin_fleet_tick_timestamp_seconds")

    def publish(self, host: str, payload: bytes) -> None:
        """Anything on a host's subject."""

        async def sent(client: Any) -> None:
            await client.jetstream().publish(subjects.frames(CLUSTER, host), payload)

        self.server.ask(sent)


def value(gateway: AgentProcess, name: str, labels: str = "") -> float:
    """One number that a gateway shows; 0 where it shows none yet."""
    return gateway.values(name).get(labels, 0.0)
