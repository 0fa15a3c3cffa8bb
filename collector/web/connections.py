"""Connections are bounded in number and in time: a client that dawdles or never reads costs nothing for long, and shuts nobody out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

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
    """Deadlines of the open connections of one aiohttp server, on the event loop's clock.

    Where there are as many as may be, the one that is nearest to its deadline makes room for a new one: a scraper is not kept out by
    clients that hold connections and ask nothing. Only where all are being served is a new one hung up on.
    """

    def __init__(self, server: web.Server, *, most: int = MOST_CONNECTIONS) -> None:
        self._server = server
        self._most = most
        self._deadline: dict[asyncio.BaseProtocol, float] = {}
        self._served: set[asyncio.BaseProtocol] = set()
        self._asked: set[asyncio.BaseProtocol] = set()  # has sent a request: once it is not among the server's, it has ended

    def protocol(self) -> asyncio.BaseProtocol:
        """The protocol of a new connection: a protocol factory for ``loop.create_server``."""
        if len(self._deadline) >= self._most:
            self._forget_ended()
        if len(self._deadline) >= self._most and not self._make_room():
            return Refuse()
        protocol = self._server()
        self._deadline[protocol] = self._now() + READ_S
        return protocol

    @contextmanager
    def serving(self, protocol: asyncio.BaseProtocol) -> Iterator[None]:
        """While a request of this connection is answered, and then until its next."""
        self._deadline[protocol] = self._now() + WRITE_S
        self._served.add(protocol)
        self._asked.add(protocol)
        try:
            yield
        finally:
            self._served.discard(protocol)
            if protocol in self._deadline:
                self._deadline[protocol] = self._now() + IDLE_S

    def sweep(self, now: float) -> int:
        """Abort the connections that are past their deadline; how many."""
        self._forget_ended()
        late = [connection for connection, deadline in self._deadline.items() if deadline < now]
        return sum(self._abort(connection) for connection in late)

    def _make_room(self) -> bool:
        waiting = self._deadline.keys() - self._served
        if not waiting:
            return False
        self._abort(min(waiting, key=self._deadline.__getitem__))
        return True

    def _abort(self, connection: asyncio.BaseProtocol) -> bool:
        self._forget(connection)
        transport = getattr(connection, "transport", None)
        if transport is not None:
            transport.abort()
        return transport is not None

    def _forget_ended(self) -> None:
        for connection in self._asked - set(self._server.connections):
            self._forget(connection)

    def _forget(self, connection: asyncio.BaseProtocol) -> None:
        self._deadline.pop(connection, None)
        self._asked.discard(connection)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
