"""The page of a simulated cluster behind the real server and API. The server runs in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from aiohttp import web

from collector.web import Web
from collector.web.incident_rows import time
from collector.web.policy import USER
from gateway import page
from gateway.api import Api
from gateway.api.operation import View
from gateway.api.topology import static_of
from gateway.job_history.history import JobHistory
from pipeline.clock import SystemClock
from pipeline.guard import Guard
from pipeline.selfmetrics import SelfMetrics
from tests.collector.web.test_server import FakePages
from tests.gateway.cluster import SimulatedCluster
from tests.wait import PATIENCE_S, until

T = TypeVar("T")
AGENT_URL = "http://{host}:9400/"


def _hello(view: View) -> dict[str, Any]:
    layout = static_of(view.cluster.layout).version
    at = time(view.cluster.time_ns)
    return {"time": at, "cluster": view.name, "layout": layout, "leads": True}


class Served:
    """The cluster and its page's address. ``asked``: paths that were asked for, in order.
    ``history``: the jobs that are over, once it has read them.

    ``owners``: the page is a user's who sees the jobs of these owners, as after its password.
    """

    def __init__(
        self,
        cluster: SimulatedCluster,
        *,
        stream: bool = True,
        owners: str = "",
        history: JobHistory | None = None,
    ) -> None:
        self.cluster, self.streaming = cluster, stream
        self.history = history
        self.tenants = {"tenant": owners} if owners else {}
        self.asked: list[str] = []
        self._begun = 0
        self._open: list[asyncio.Queue[bytes | None]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.address = "127.0.0.1:0"
        self.start()

    @property
    def url(self) -> str:
        """Of the page."""
        return f"http://{self.address}/"

    def start(self) -> None:
        """Serve, at the address it had before."""
        guard, pages = Guard(SelfMetrics(), SystemClock()), FakePages()
        self._api = Api(
            self.cluster.model,
            guard,
            name="c1",
            tenants=self.tenants,
            shown=page.paths("/metrics"),
            history=self.history,
        )
        self._web = Web(pages, guard, [self.address], site=self._site)
        (self.address,) = self._run(self._web.start())

    def stop(self) -> None:
        """Serve no more."""
        self.end_streams()
        self._run(self._web.stop())
        self._run(self._api.close())

    def close(self) -> None:
        """End the server and its thread."""
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    def send(self, kind: str, event: dict[str, Any]) -> None:
        """An event on all open streams."""
        data = f"event: {kind}\ndata: {json.dumps(event)}\n\n".encode()
        for queue in self._open:
            self._loop.call_soon_threadsafe(queue.put_nowait, data)

    def end_streams(self) -> None:
        """The answers of the stream end, as they do after a while."""
        for queue in self._open:
            self._loop.call_soon_threadsafe(queue.put_nowait, None)

    def until_streams(self, number: int) -> None:
        """Wait until so many answers of the stream have begun."""
        until(lambda: self._begun >= number, "an answer of the stream to begin")

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result(PATIENCE_S)

    def _site(self, app: web.Application) -> None:
        app.middlewares.append(self._named)
        self._api.add(app)
        page.add(app, agent_url=AGENT_URL)
        app.middlewares.append(self._count)

    @web.middleware
    async def _named(self, request: web.Request, handler: Any) -> web.StreamResponse:
        for user in self.tenants:
            request[USER] = user
        response: web.StreamResponse = await handler(request)
        return response

    @web.middleware
    async def _count(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """In the place of the gateway's stream stands one whose events the test sends."""
        self.asked.append(request.path)
        if request.path == "/api/v1/stream":
            return await self._stream(request) if self.streaming else web.Response(status=404)
        response: web.StreamResponse = await handler(request)
        return response

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._open.append(queue)
        self._begun += 1
        hello = await self._api.in_thread(_hello)
        await response.write(f"retry: 50\nevent: hello\ndata: {json.dumps(hello)}\n\n".encode())
        with contextlib.suppress(ConnectionError):
            while (data := await queue.get()) is not None:
                await response.write(data)
        self._open.remove(queue)
        return response
