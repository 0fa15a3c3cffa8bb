"""Connections are bounded in number and in time: a client that dawdles or never reads costs nothing for long."""

from __future__ import annotations

import asyncio

from aiohttp import web

# Read 10 s, write 30 s as in dcgm-exporter 4.8.3; a kept-alive connection outlives the longest usual scrape interval.
READ_S, WRITE_S, IDLE_S = 10.0, 30.0, 150.0
MOST_CONNECTIONS = 256


class Refuse(asyncio.Protocol):
    """Hangs up at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Close what has just been opened."""
        transport.close()


class Connections:
    """Deadlines of the open connections of one aiohttp server, on the event loop's clock."""

    def __init__(self, server: web.Server, *, most: int = MOST_CONNECTIONS) -> None:
        self._server = server
        self._most = most
        self._deadline: dict[asyncio.BaseProtocol, float] = {}

    def protocol(self) -> asyncio.BaseProtocol:
        """The protocol of a new connection: a protocol factory for ``loop.create_server``."""
        if len(self._server.connections) >= self._most:
            return Refuse()
        protocol = self._server()
        self.allow(protocol, READ_S)
        return protocol

    def allow(self, protocol: asyncio.BaseProtocol, seconds: float) -> None:
        """Give a connection so long until its next step."""
        self._deadline[protocol] = asyncio.get_running_loop().time() + seconds

    def sweep(self, now: float) -> int:
        """Abort the connections that are past their deadline; how many."""
        late = [connection for connection, deadline in self._deadline.items() if deadline < now]
        for connection in late:
            del self._deadline[connection]
        here = [c.transport for c in self._server.connections if c in late and c.transport is not None]
        for transport in here:
            transport.abort()
        return len(here)
