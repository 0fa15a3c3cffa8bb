"""Three NATS servers that are one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from nats import errors
from nats.js.errors import APIError

from tests.nats import Nats
from tests.ports import free_ports
from tests.wait import until


@contextmanager
def three(folder: Path) -> Iterator[list[Nats]]:
    """Servers s0, s1 and s2 with the stream of the bus on each."""
    ports = free_ports(3)
    routes = json.dumps([f"nats://127.0.0.1:{port}" for port in ports])
    with ExitStack() as stack:
        servers = []
        for number, port in enumerate(ports):
            more = [
                f"server_name: s{number}",
                f'cluster {{ name: c, listen: "127.0.0.1:{port}", routes: {routes} }}',
            ]
            servers.append(stack.enter_context(Nats(folder / f"s{number}", more=more)))
        until(lambda: _made(servers[0]), "a stream of three", servers=servers)
        yield servers


def leader_of(stream: str, servers: Sequence[Nats]) -> Nats:
    """The server that leads a stream, once there is one."""

    async def leader(client: object) -> str:
        info = await client.jetstream().stream_info(stream)  # type: ignore[attr-defined]
        return str(info.cluster.leader or "")

    def led() -> str:
        try:
            return next(each for each in servers if each.pid).ask(leader)
        except (errors.Error, APIError):
            return ""  # while they vote

    return servers[int(until(led, "an election").removeprefix("s"))]


def _made(server: Nats) -> bool:
    """Three servers that have just met take a while to agree who leads."""
    try:
        server.stream(num_replicas=3)
    except (AssertionError, errors.Error):
        return False
    return True
