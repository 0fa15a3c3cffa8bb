"""Web: the server of :9400.

Everything it serves is read only; it never waits for hardware or disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Sequence
from itertools import chain

import orjson

from collector.config.web.security import Security, WebFile, refuse_less
from collector.web import addresses
from collector.web.addresses import Bound
from collector.web.aiohttp_server import web
from collector.web.coalesce import ScrapeCoalescer, TooManyScrapes, compress
from collector.web.listener import Handler, Listener
from collector.web.page import ASSETS, incident_page, missing_page, page
from collector.web.pages import Pages
from collector.web.policy import Policy
from pipeline.catalog import agent
from pipeline.exposition import accepts_gzip, negotiate
from pipeline.guard import Guard, Health
from pipeline.selfmetrics import SelfMetrics

Site = Callable[[web.Application], None]
NONE_HELD: tuple[Bound, Bound] = ({}, {})
IDENTITY = "{id:[0-9a-f]{4,16}}"  # of an incident, or the begin of it
NOTHING = b"null"
NO_GPU = "KO - no GPU collector registered"  # dcgm-exporter's words, for those who look for them
LOOK_S = 1.0  # between two looks at the files of a web configuration

POLICY = "Content-Security-Policy"
SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    # The page takes its style, its script and its news from here, and the script
    # makes no markup from text.
    POLICY: (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src "
        "data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'"
    ),
    "Cache-Control": "no-store",
    "Server": "tocsin",
}


class Failed(Exception):  # noqa: N818 - it is an answer (500) whose cause was counted and logged already
    """A page could not be made."""


class Web:
    """Serves pages on one or more addresses.

    ``start`` raises ListenError; after it nothing here ends the process.

    A ``site`` adds routes in place of the agent's page and API; POST to the paths of ``bodies`` may
    have a body, which their handlers bound.

    One that ``follows`` another, which goes on serving until it is stopped, shares the addresses
    that both have, and asks no less of clients: ConfigError where it would.
    """

    def __init__(
        self,
        pages: Pages,
        guard: Guard,
        listen: Sequence[str] = ("127.0.0.1:9400",),
        *,
        metrics_path: str = "/metrics",
        max_scrapes: int = 16,
        health_listen: Sequence[str] = (),
        health_require_gpus: bool = False,
        file: WebFile | None = None,
        metrics: SelfMetrics | None = None,
        follows: Web | None = None,
        site: Site | None = None,
        bodies: Collection[str] = (),
    ) -> None:
        self._pages = pages
        self._guard = guard
        self._metrics = metrics or SelfMetrics()
        self._health: dict[str, Health] = {}
        self._addresses, self._health_addresses = tuple(listen), tuple(health_listen)
        self._require_gpus = health_require_gpus
        self._site = site
        self._file = file
        self._policy = Policy(lambda: self.security, self._refused, bodies)
        self.metrics_path = metrics_path
        self._gather = ScrapeCoalescer(
            lambda form: self._made("metrics", lambda: pages.metrics(form)), max_scrapes
        )
        self._listener = Listener(
            self._application(), guard, security=lambda: self.security, refused=self._refused
        )
        self._health_listener = Listener(self._health_application(), guard, refused=self._refused)
        self._watcher: asyncio.Task[None] | None = None
        if follows is not None:
            refuse_less(follows.security, self.security, "web.config_file")
        self._held: tuple[Bound, Bound] = follows.bound if follows is not None else NONE_HELD
        self.bound: tuple[Bound, Bound] = NONE_HELD  # of the main listener, and of that for probes
        self.health_bound: list[str] = []

    @property
    def security(self) -> Security:
        """Who is let in at this moment."""
        return self._file.security if self._file is not None else Security()

    async def start(self) -> list[str]:
        """Listen and serve; the addresses that are bound, with the ports
        that were given for port 0.

        Those of the health listener, which asks nobody who they are, are in ``health_bound``.
        """
        held, self._held = self._held, NONE_HELD
        main = addresses.listen(self._addresses, held[0])
        try:
            probes = addresses.listen(self._health_addresses, held[1])
        except addresses.ListenError:
            addresses.close(main)
            raise
        self.bound = main, probes
        sockets, health = (list(chain.from_iterable(bound.values())) for bound in self.bound)
        await self._listener.start(sockets)
        if health:
            await self._health_listener.start(health)
        self._metrics.replace(agent.WEB_CONFIG_SUCCESS, {(): 1.0} if self._file is not None else {})
        if self._file is not None:
            self._watcher = asyncio.get_running_loop().create_task(self._watch(self._file))
        self.health_bound = [addresses.shown(bound) for bound in health]
        return [addresses.shown(bound) for bound in sockets]

    async def stop(self) -> None:
        """Stop listening, let running answers end, close. Safe to call twice."""
        if self._watcher is not None:
            self._watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watcher
            self._watcher = None
        await asyncio.gather(self._listener.stop(), self._health_listener.stop())

    async def _watch(self, file: WebFile) -> None:
        """Takes a changed web configuration over: for the next connection, and by ending
        those of the one before.
        """
        while True:
            await asyncio.sleep(LOOK_S)
            changed, error = await asyncio.to_thread(self._guard.call, "web", "config", file.look)
            if changed:
                self._listener.renew()
            self._metrics.set(agent.WEB_CONFIG_SUCCESS, float(not (file.error or error)))

    def _application(self) -> web.Application:
        app = web.Application(middlewares=[self._policy.police, _failed], client_max_size=4096)
        app.router.add_get(self.metrics_path, self._exposition_page)
        self._add_health(app)
        if self._site is not None:
            self._site(app)
        else:
            self._add_agent(app)
        app.on_response_prepare.append(self._secure)
        return app

    def _add_agent(self, app: web.Application) -> None:
        app.router.add_get("/api/v1/status", self._status)
        app.router.add_get("/api/v1/incidents", self._incidents)
        app.router.add_get(f"/api/v1/incidents/{IDENTITY}", self._incident)
        app.router.add_get("/api/v1/health", self._node_health)
        if self.metrics_path != "/":
            app.router.add_get("/", self._page)
            app.router.add_get(f"/incidents/{IDENTITY}", self._explained)
            for path in ASSETS:
                app.router.add_get(path, self._asset)

    def _health_application(self) -> web.Application:
        app = web.Application(client_max_size=4096)
        self._add_health(app)
        app.on_response_prepare.append(self._secure)
        return app

    def _add_health(self, app: web.Application) -> None:
        app.router.add_get("/-/healthy", self._healthy)
        app.router.add_get("/-/ready", self._ready)
        app.router.add_get("/health", self._dcgm_health)
        app.router.add_get("/healthz", self._dcgm_health)

    def _refused(self, reason: str) -> None:
        self._metrics.add(agent.WEB_REFUSED, reason)

    def _made(self, name: str, make: Callable[[], bytes]) -> bytes:
        """What ``make`` gives, or Failed; a failure is counted each time and logged once."""
        made, error = self._guard.call("web", name, make)
        health = self._health.setdefault(name, Health(f"the page {name}"))
        if made is None:
            health.failed(f"{type(error).__name__}: {error}", time.monotonic_ns())
            raise Failed
        health.succeeded()
        return made

    async def _exposition_page(self, request: web.Request) -> web.StreamResponse:
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
        headers = {
            "X-Registry-Available": "true",
            "X-Reload-In-Progress": "true" if reloading else "false",
        }
        if self._require_gpus and not reloading and not self._pages.gpus():
            headers["X-GPU-Collectors"] = "0"
            return web.Response(status=503, text=NO_GPU, headers=headers)
        return web.Response(text="OK - reload in progress" if reloading else "OK", headers=headers)

    async def _status(self, _: web.Request) -> web.Response:
        return web.Response(
            body=self._made("status", self._status_json), content_type="application/json"
        )

    def _status_json(self) -> bytes:
        return orjson.dumps(self._pages.status())

    async def _incidents(self, _: web.Request) -> web.Response:
        body = self._made("incidents", self._incidents_json)
        return web.Response(body=body, content_type="application/json")

    def _incidents_json(self) -> bytes:
        return orjson.dumps({"incidents": self._pages.incidents(), "closed": self._pages.closed()})

    async def _incident(self, request: web.Request) -> web.Response:
        """Everything about one incident, as JSON."""
        named = request.match_info["id"]
        body = self._made("incident", lambda: orjson.dumps(self._pages.incident(named)))
        if body == NOTHING:
            return web.Response(status=404, text=f"no open or recent incident {named}\n")
        return web.Response(body=body, content_type="application/json")

    async def _explained(self, request: web.Request) -> web.Response:
        """The same as a page."""
        named = request.match_info["id"]
        body = self._made("explained", lambda: self._explained_html(named))
        page, status = (body, 200) if body else (missing_page(named).encode(), 404)
        return web.Response(body=page, status=status, content_type="text/html", charset="utf-8")

    def _explained_html(self, named: str) -> bytes:
        document = self._pages.incident(named)
        return incident_page(document).encode() if document else b""

    async def _node_health(self, _: web.Request) -> web.Response:
        body = self._made("health", lambda: orjson.dumps(self._pages.health()))
        return web.Response(body=body, content_type="application/json")

    async def _page(self, request: web.Request) -> web.Response:
        body = self._made("page", self._page_html)
        if not accepts_gzip(",".join(request.headers.getall("Accept-Encoding", ()))):
            return web.Response(
                body=body,
                content_type="text/html",
                charset="utf-8",
                headers={"Vary": "Accept-Encoding"},
            )
        headers = {"Vary": "Accept-Encoding", "Content-Encoding": "gzip"}
        return web.Response(
            body=compress(body), content_type="text/html", charset="utf-8", headers=headers
        )

    def _page_html(self) -> bytes:
        return page(self._pages.status(), self._pages.recently, self.metrics_path).encode()

    @staticmethod
    async def _asset(request: web.Request) -> web.Response:
        asset = ASSETS[request.path]
        return web.Response(body=asset.body, content_type=asset.content_type, charset="utf-8")

    async def _secure(self, _: web.Request, response: web.StreamResponse) -> None:
        own = response.headers.get(POLICY, SECURITY_HEADERS[POLICY])  # of a page with its own style
        response.headers.update({**SECURITY_HEADERS, POLICY: own, **self.security.headers})


@web.middleware
async def _failed(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except Failed:
        return web.Response(status=500, text="internal server error\n")


def _said(trouble: str, fine: str) -> web.Response:
    return web.Response(status=503, text=trouble + "\n") if trouble else web.Response(text=fine)
