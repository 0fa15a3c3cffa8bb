"""One aiohttp application on bound sockets: who may connect, for how long, and what is
said of those who may not.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable

from collector.config.web.security import Security
from collector.web.aiohttp_server import web
from collector.web.connections import IDLE_S, Connections
from collector.web.request_errors import RequestErrorLog
from pipeline.guard import Guard

log = logging.getLogger("tocsin.web")

DRAIN_S = 5.0  # as dcgm-exporter: running scrapes may end
SWEEP_S = 1.0
MAX_REASONS = 32  # that are said in words

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Listener:
    """Serves an application.

    ``refused`` counts by reason what is turned away before there is a request.
    """

    def __init__(
        self,
        app: web.Application,
        guard: Guard,
        *,
        security: Callable[[], Security] = Security,
        refused: Callable[[str], None] = lambda _: None,
    ) -> None:
        app.middlewares.insert(0, self._timed)
        self._app, self._guard = app, guard
        self._security, self._count = security, refused
        self._said: set[str] = set()
        self._runner: web.AppRunner | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._sockets: list[socket.socket] = []
        self.connections: Connections | None = None

    async def start(self, sockets: Iterable[socket.socket]) -> None:
        """Serve on these sockets, which are closed with it."""
        self._runner = web.AppRunner(
            self._app,
            access_log=None,
            keepalive_timeout=IDLE_S,
            shutdown_timeout=DRAIN_S,
            handle_signals=False,
            lingering_time=0,  # a body is nobody's business here: it is not waited for
            logger=RequestErrorLog(self._guard),
        )
        await self._runner.setup()
        assert self._runner.server is not None  # noqa: S101 - setup has made it
        self.connections = Connections(
            self._runner.server, security=self._security, refused=self.turned_away
        )
        self._sockets = list(sockets)
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self.connections.accept(bound)) for bound in self._sockets]
        self._tasks.append(loop.create_task(self._sweep(self.connections)))

    async def stop(self) -> None:
        """Stop listening, let running answers end, close. Safe to call twice."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks.clear()
        for bound in self._sockets:
            bound.close()
        if self.connections is not None:
            self.connections.close()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def renew(self) -> None:
        """Other rules are in force: what was opened under the old ones ends."""
        if self.connections is not None:
            self.connections.renew()

    def turned_away(self, reason: str, why: str) -> None:
        """Count one; say why where that has not been said before."""
        self._count(reason)
        if why not in self._said and len(self._said) < MAX_REASONS:
            self._said.add(why)
            log.warning(
                "client rejected (further ones for this reason are only counted): %s: %s",
                reason,
                why,
            )

    @staticmethod
    async def _sweep(connections: Connections) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            connections.sweep(asyncio.get_running_loop().time())

    @web.middleware
    async def _timed(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Keeps time for the connection while it is served and between two requests."""
        assert self.connections is not None  # noqa: S101 - start has made it
        with self.connections.serving(request.protocol):
            return await handler(request)
