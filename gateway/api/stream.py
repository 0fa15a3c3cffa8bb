"""``/api/v1/stream``: what changed, as server-sent events.

An answer ends after 25 s and the client goes on where it was (``Last-Event-ID``): no connection is
held for longer than any other answer, and a change of the web configuration reaches every client.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from gateway.api import schema
from gateway.api.feed import EVENTS, Feed
from gateway.api.operation import Operation, View
from gateway.api.problem import Problem

MAX_STREAMS = 64  # of 256 connections
ANSWER_S = 25.0  # an answer is aborted after 30 s (collector/web/connections.py)
LINGER_S = 30.0  # the ring goes on after the last client: it comes back a second later
PERIOD_S = 1.0
RETRY = b"retry: 1000\n\n"

OPERATION = Operation(
    id="stream",
    path="/api/v1/stream",
    summary="What changes, as server-sent events",
    text="For `EventSource`. The answer ends after 25 s; the client asks again with "
    "`Last-Event-ID`, as browsers do by themselves, and misses nothing. Load topology, incidents "
    "and jobs after the first `hello`, and again after `reset`. `data` of each event is one JSON "
    "object: "
    + ", ".join(f"`{name}` (schema `Event{name.capitalize()}`)" for name in EVENTS)
    + f". At most {MAX_STREAMS} clients.",
    answer=schema.text("events"),
    handler=None,
    media="text/event-stream",
)


class Stream:
    """Writes the ring to clients. ``in_thread`` runs work on a view (Api.in_thread)."""

    def __init__(
        self,
        feed: Feed,
        in_thread: Callable[[Callable[[View], Any]], Awaitable[Any]],
        *,
        period_s: float = PERIOD_S,
        answer_s: float = ANSWER_S,
    ) -> None:
        self._feed, self._in_thread = feed, in_thread
        self._period_s, self._answer_s = period_s, answer_s
        self._clients = 0
        self._left_s = 0.0  # when the last client left
        self._news = asyncio.Event()
        self._first = asyncio.Lock()
        self._publisher: asyncio.Task[None] | None = None
        self._over = False

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One client, until the answer is old."""
        if request.query:
            name = next(iter(request.query))
            raise Problem(400, f"{name!r:.80} is no parameter here; known: none", name[:80])
        if self._clients >= MAX_STREAMS:
            raise Problem(503, f"{MAX_STREAMS} clients have a stream already")
        self._clients += 1
        try:
            await self._begin()
            return await self._written(request)
        finally:
            self._clients -= 1
            self._left_s = asyncio.get_running_loop().time()

    async def _begin(self) -> None:
        async with self._first:
            if self._publisher is None or self._publisher.done():
                await self._publish()
                self._publisher = asyncio.get_running_loop().create_task(self._publishing())

    async def _written(self, request: web.Request) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._answer_s
        place = self._feed.place(request.headers.get("Last-Event-ID", ""))
        headers = {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        response = web.StreamResponse(headers=headers)
        with contextlib.suppress(ConnectionError):  # it left
            await response.prepare(request)
            await response.write(RETRY + self._feed.hello(max(place, 0)))
            while not self._over and loop.time() < until:
                news = self._news
                for number, event in self._feed.after(place):
                    await response.write(event)
                    place = number
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), max(until - loop.time(), 0))
            await response.write_eof()
        return response

    async def _publishing(self) -> None:
        """While there are clients, and a little longer."""
        loop = asyncio.get_running_loop()
        while self._clients or loop.time() - self._left_s < LINGER_S:
            await asyncio.sleep(self._period_s)
            with contextlib.suppress(Problem):  # the thread is busy, or it failed and was counted
                await self._publish()

    async def _publish(self) -> None:
        events = await self._in_thread(self._feed.step)
        if self._feed.add(events):
            news, self._news = self._news, asyncio.Event()
            news.set()

    async def end(self, _: object = None) -> None:
        """The server ends: so do all answers."""
        self._over = True
        self._news.set()
        if self._publisher is not None:
            self._publisher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._publisher
