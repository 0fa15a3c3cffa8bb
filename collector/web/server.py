"""Web: the server of :9400. Everything it serves is read only; it never waits for hardware or disk."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence

import orjson
from aiohttp import web

from collector.web import addresses
from collector.web.complaints import Complaints
from collector.web.connections import IDLE_S, Connections
from collector.web.gather import Gather, TooManyScrapes, compress
from collector.web.page import ASSETS, page
from collector.web.pages import Pages
from pipeline.exposition import accepts_gzip, negotiate
from pipeline.guard import Guard, Health

DRAIN_S = 5.0  # as dcgm-exporter: running scrapes may end
SWEEP_S = 1.0
ACCEPTS = 8

SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    # The page takes its style, its script and its news from here, and the script makes no markup from text.
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "Cache-Control": "no-store",
    "Server": "tocsin",
}


class Failed(Exception):  # noqa: N818 - it is an answer (500) whose cause was counted and logged already
    """A page could not be made."""


class Web:
    """Serves pages on one or more addresses. ``start`` raises ListenError; after it nothing here ends the process."""

    def __init__(
        self,
        pages: Pages,
        guard: Guard,
        listen: Sequence[str] = ("127.0.0.1:9400",),
        *,
        metrics_path: str = "/metrics",
        most_scrapes: int = 16,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._pages = pages
        self._guard = guard
        self._health: dict[str, Health] = {}
        self._addresses = tuple(listen)
        self._tls = tls
        self._metrics_path = metrics_path
        self._gather = Gather(lambda form: self._made("metrics", lambda: pages.metrics(form)), most_scrapes)
        self._runner: web.AppRunner | None = None
        self._servers: list[asyncio.Server] = []
        self._connections: Connections | None = None
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self) -> list[str]:
        """Listen and serve; the addresses that are bound, with the ports that were given for port 0."""
        sockets = addresses.listen(self._addresses)
        self._runner = web.AppRunner(
            self._application(),
            access_log=None,
            keepalive_timeout=IDLE_S,
            shutdown_timeout=DRAIN_S,
            handle_signals=False,
            logger=Complaints(self._guard),
        )
        await self._runner.setup()
        assert self._runner.server is not None  # noqa: S101 - setup has made it
        self._connections = Connections(self._runner.server)
        self._servers = [await self._serve(bound) for bound in sockets]
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep(self._connections))
        return [addresses.shown(bound) for bound in sockets]

    async def stop(self) -> None:
        """Stop listening, let running answers end, close. Safe to call twice."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        if self._sweeper is not None:
            self._sweeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sweeper
            self._sweeper = None
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _serve(self, bound: socket.socket) -> asyncio.Server:
        assert self._connections is not None  # noqa: S101 - start has made it
        # asyncio accepts, and out of file descriptors fails, so many times in a row: few. The kernel's queue is made longer again.
        server = await asyncio.get_running_loop().create_server(
            self._connections.protocol, sock=bound, ssl=self._tls, backlog=ACCEPTS
        )
        bound.listen(addresses.BACKLOG)
        return server

    @staticmethod
    async def _sweep(connections: Connections) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            connections.sweep(asyncio.get_running_loop().time())

    def _application(self) -> web.Application:
        app = web.Application(middlewares=[self._around], client_max_size=4096)
        app.router.add_get(self._metrics_path, self._metrics)
        app.router.add_get("/-/healthy", self._healthy)
        app.router.add_get("/-/ready", self._ready)
        app.router.add_get("/health", self._dcgm_health)
        app.router.add_get("/healthz", self._dcgm_health)
        app.router.add_get("/api/v1/status", self._status)
        app.router.add_get("/api/v1/incidents", self._incidents)
        app.router.add_get("/api/v1/health", self._node_health)
        if self._metrics_path != "/":
            app.router.add_get("/", self._page)
            for path in ASSETS:
                app.router.add_get(path, self._asset)
        app.on_response_prepare.append(_secure)
        return app

    @web.middleware
    async def _around(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Keeps time for the connection while it is served and between two requests."""
        assert self._connections is not None  # noqa: S101 - start has made it
        with self._connections.serving(request.protocol):
            try:
                return await handler(request)
            except Failed:
                return web.Response(status=500, text="internal server error\n")

    def _made(self, name: str, make: Callable[[], bytes]) -> bytes:
        """What ``make`` gives, or Failed; a failure is counted each time and logged once."""
        made, error = self._guard.call("web", name, make)
        health = self._health.setdefault(name, Health(f"the page {name}"))
        if made is None:
            health.failed(f"{type(error).__name__}: {error}", time.monotonic_ns())
            raise Failed
        health.succeeded()
        return made

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        form = negotiate(",".join(request.headers.getall("Accept", ())))
        gzip = accepts_gzip(",".join(request.headers.getall("Accept-Encoding", ())))
        try:
            with self._gather.slot():
                body = await self._gather.page(form, gzip=gzip)
                headers = {"Content-Type": form.content_type, "Vary": "Accept, Accept-Encoding"}
                if gzip:
                    headers["Content-Encoding"] = "gzip"
                response = web.Response(body=body, headers=headers)
                await response.prepare(request)
                await response.write_eof()
                return response
        except TooManyScrapes:
            return web.Response(status=503, text="scrape concurrency limit reached\n")

    async def _healthy(self, _: web.Request) -> web.Response:
        return _said(self._pages.unhealthy(), "Tocsin is healthy.\n")

    async def _ready(self, _: web.Request) -> web.Response:
        return _said(self._pages.unready(), "Tocsin is ready.\n")

    async def _dcgm_health(self, _: web.Request) -> web.Response:
        reloading = self._pages.reloading()
        headers = {"X-Registry-Available": "true", "X-Reload-In-Progress": "true" if reloading else "false"}
        return web.Response(text="OK - reload in progress" if reloading else "OK", headers=headers)

    async def _status(self, _: web.Request) -> web.Response:
        return web.Response(body=self._made("status", self._status_json), content_type="application/json")

    def _status_json(self) -> bytes:
        return orjson.dumps(self._pages.status())

    async def _incidents(self, _: web.Request) -> web.Response:
        body = self._made("incidents", lambda: orjson.dumps({"incidents": self._pages.incidents()}))
        return web.Response(body=body, content_type="application/json")

    async def _node_health(self, _: web.Request) -> web.Response:
        body = self._made("health", lambda: orjson.dumps(self._pages.health()))
        return web.Response(body=body, content_type="application/json")

    async def _page(self, request: web.Request) -> web.Response:
        body = self._made("page", self._page_html)
        if not accepts_gzip(",".join(request.headers.getall("Accept-Encoding", ()))):
            return web.Response(body=body, content_type="text/html", charset="utf-8", headers={"Vary": "Accept-Encoding"})
        headers = {"Vary": "Accept-Encoding", "Content-Encoding": "gzip"}
        return web.Response(body=compress(body), content_type="text/html", charset="utf-8", headers=headers)

    def _page_html(self) -> bytes:
        return page(self._pages.status(), self._pages.recently, self._metrics_path).encode()

    @staticmethod
    async def _asset(request: web.Request) -> web.Response:
        asset = ASSETS[request.path]
        return web.Response(body=asset.body, content_type=asset.content_type, charset="utf-8")


def _said(trouble: str, fine: str) -> web.Response:
    return web.Response(status=503, text=trouble + "\n") if trouble else web.Response(text=fine)


async def _secure(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(SECURITY_HEADERS)
