"""Connections are bounded in number and in time: a client that dawdles or never reads costs nothing
for long, and shuts nobody out.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from collector.config.web.security import Security
from collector.config.web.tls import allowed
from collector.web.aiohttp_server import web

# Read 10 s, write 30 s as in dcgm-exporter 4.8.3; a kept-alive connection outlives the
# longest usual scrape interval.
READ_S, WRITE_S, IDLE_S = 10.0, 30.0, 150.0
CLOSE_S = 2.0  # for the other side's farewell of TLS
MAX_CONNECTIONS = 256
# A mutual handshake took 2.4 ms of CPU: a hundred a second are the most that a
# flood can cost, others queue.
HANDSHAKE_PAUSE_S = 0.01
# Not of this connection but of the whole process: out of descriptors or memory. The next try waits.
EXHAUSTED, EXHAUSTED_PAUSE_S = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM), 0.2

Refused = Callable[[str, str], None]


@dataclass(eq=False, slots=True)
class Connection:
    """One that is open.

    Until its handshake is done it has no protocol; ``deadline`` is on the event loop's clock.

    ``asked`` says that it brought a request, ``served`` that it is getting an answer, ``last`` that
    it ends with its next one.
    """

    deadline: float
    opening: asyncio.Task[None] | None = None
    transport: asyncio.BaseTransport | None = None
    protocol: asyncio.BaseProtocol | None = None
    asked: bool = False
    served: bool = False
    last: bool = False

    def abort(self) -> None:
        """End it at once."""
        if self.transport is not None:
            assert isinstance(self.transport, asyncio.WriteTransport)  # noqa: S101 - of a stream
            self.transport.abort()
        elif self.opening is not None:
            self.opening.cancel()


class Connections:
    """Opens, times and ends the connections of one aiohttp server.

    Where there are as many as may be, the one that is nearest to its deadline makes room for a new
    one: a scraper is not kept out by clients that hold connections and ask nothing. Only where all
    are being served is a new one hung up on.
    """

    def __init__(
        self,
        server: web.Server,
        *,
        most: int = MAX_CONNECTIONS,
        security: Callable[[], Security] = Security,
        refused: Refused = lambda _reason, _why: None,
    ) -> None:
        self._server = server
        self._most = most
        self._security, self._refused = security, refused
        self._open: set[Connection] = set()
        self._by_protocol: dict[asyncio.BaseProtocol, Connection] = {}

    def __len__(self) -> int:
        return len(self._open)

    async def accept(self, bound: socket.socket) -> None:
        """Accept connections until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(bound)
            except (
                OSError
            ) as error:  # the client has gone again, or there is nothing left to take it with
                exhausted = error.errno in EXHAUSTED
                if exhausted:
                    self._make_room()
                await asyncio.sleep(EXHAUSTED_PAUSE_S if exhausted else 0)
                continue
            self.open(accepted)
            # A flood of connections is no reason to serve none.
            await asyncio.sleep(0 if self._security().context is None else HANDSHAKE_PAUSE_S)

    def open(self, accepted: socket.socket) -> None:
        """Begin with a new connection, or hang up."""
        if len(self._open) >= self._most:
            self._forget_ended()
        if len(self._open) >= self._most and not self._make_room():
            self._refused("full", f"{self._most} connections are being served")
            accepted.close()
            return
        one = Connection(self._now() + READ_S)
        self._open.add(one)
        one.opening = asyncio.get_running_loop().create_task(self._begin(one, accepted))
        one.opening.add_done_callback(lambda _: accepted.close() if one.transport is None else None)

    @contextmanager
    def serving(self, protocol: asyncio.BaseProtocol) -> Iterator[None]:
        """While a request of this connection is answered, and then until its next."""
        one = self._by_protocol.get(protocol)
        if one is None:  # it was aborted, and its request was in the loop's hands already
            yield
            return
        one.deadline, one.asked, one.served = self._now() + WRITE_S, True, True
        try:
            yield
        finally:
            one.deadline, one.served = self._now() + IDLE_S, False
            if one.last:
                _close_after_answer(protocol)

    def sweep(self, now: float) -> int:
        """Abort the connections that are past their deadline; how many."""
        self._forget_ended()
        late = [one for one in self._open if one.deadline < now]
        for one in late:
            self._abort(one)
        return len(late)

    def renew(self) -> None:
        """Other rules are in force: end every connection that was opened under the old ones.

        Idle ones at once: who asks again on one of them knows to open another. Those that get their
        answer, or have just been opened to ask for one (10 s at most), with that answer: a scrape
        that has begun is not lost.
        """
        self._forget_ended()
        for one in list(self._open):
            if one.asked and not one.served:
                self._abort(one)
            else:
                one.last = True

    def close(self) -> None:
        """End those that are not the server's yet; it ends its own."""
        for one in [one for one in self._open if one.protocol is None]:
            self._abort(one)

    async def _begin(self, one: Connection, accepted: socket.socket) -> None:
        security = self._security()
        deadline = None if security.context is None else READ_S
        close = None if security.context is None else CLOSE_S
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: _Gate(self, one, security),
                accepted,
                ssl=security.context,
                ssl_handshake_timeout=deadline,
                ssl_shutdown_timeout=close,
            )
        except (OSError, ssl.SSLError) as error:
            self._refused("handshake", _why(error))
            self._forget(one)
        finally:
            one.opening = None

    def entered(self, one: Connection, transport: asyncio.Transport, security: Security) -> None:
        """Its handshake is done: the server's from here, or ended where its
        certificate is of nobody we know.
        """
        if one not in self._open:  # it had to make room meanwhile
            transport.abort()
            return
        one.transport = transport
        if security.names is not None and not allowed(
            transport.get_extra_info("peercert"), security.names
        ):
            self._refused(
                "certificate",
                "none of the names of a client's certificate is among client_allowed_sans",
            )
            self._abort(one)
            return
        one.protocol = protocol = self._server()
        self._by_protocol[protocol] = one
        transport.set_protocol(protocol)
        protocol.connection_made(transport)

    def _make_room(self) -> bool:
        waiting = [one for one in self._open if not one.served]
        if not waiting:
            return False
        self._abort(min(waiting, key=lambda one: one.deadline))
        return True

    def _abort(self, one: Connection) -> None:
        self._forget(one)
        one.abort()

    def _forget_ended(self) -> None:
        living = set(self._server.connections)
        for one in [
            one for one in self._open if one.protocol is not None and one.protocol not in living
        ]:
            self._forget(one)

    def _forget(self, one: Connection) -> None:
        self._open.discard(one)
        if one.protocol is not None:
            self._by_protocol.pop(one.protocol, None)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


class _Gate(asyncio.Protocol):
    """Stands before the server until the handshake is done: not a byte of
    a request is read before.
    """

    def __init__(self, connections: Connections, one: Connection, security: Security) -> None:
        self._connections, self._one, self._security = connections, one, security

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let the connection in, or not."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - of a stream
        with suppress(OSError):  # it has gone already
            self._connections.entered(self._one, transport, self._security)


def _close_after_answer(protocol: asyncio.BaseProtocol) -> None:
    assert isinstance(protocol, web.RequestHandler)  # noqa: S101 - only its requests are served
    protocol.close()


def _why(error: OSError) -> str:
    """A reason of OpenSSL's bounded vocabulary, never a client's own words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return str(error.reason or type(error).__name__).lower().replace("_", " ")
    return type(error).__name__
