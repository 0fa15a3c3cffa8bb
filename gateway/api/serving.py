"""Serves the operations: reads the request, makes the answer in a thread of its own, sends it.

The event loop renews the lease and reads the bus, and the judge has another thread: neither waits
for an answer to be made, and one answer is made at a time.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, TypeVar, cast

import orjson
from aiohttp import web

from collector.config.links import Links
from collector.job_page.style import POLICY as PAGE_POLICY
from collector.web.coalesce import compress
from gateway.api import openapi, problem
from gateway.api.feed import Feed, Pulse
from gateway.api.operation import Operation, View
from gateway.api.operations import OPERATIONS
from gateway.api.parameters import Values, read
from gateway.api.part import part_of
from gateway.api.problem import Problem
from gateway.api.readers import OWNERS, Owners, Readers
from gateway.api.stream import ANSWER_S, PERIOD_S, Stream
from gateway.job_history.history import BusyError, GoneError, JobHistory
from gateway.job_history.runs import Runs, StoredRun
from gateway.model import Cluster, ClusterModel
from pipeline.exposition import accepts_gzip
from pipeline.guard import Guard, Health

T = TypeVar("T")
MAX_WAITING = 32  # requests that wait for the thread; each is made in a tenth of a second at most
# Of them those of readers who see a part of the cluster: no tenant keeps others or operators out.
# Two pages of one ask five questions at once each.
MAX_OF_TENANTS, MAX_OF_TENANT = 20, 10
MIN_GZIP = 1400  # bytes: what one packet takes is not worth it
MAX_BODIES = 2  # read or waiting at once: a scheduler asks one after the other
PREFIXES = ("/api/", "/scheduler/")


@dataclass(frozen=True, slots=True)
class _Request:
    """What of a request an answer depends on."""

    operation: Operation
    values: Values
    body: bytes
    gzip: bool
    known: tuple[str, ...]  # ETags of If-None-Match
    owners: Owners  # whose jobs are seen


@dataclass(frozen=True, slots=True)
class _Answer:
    """What is sent."""

    body: bytes
    headers: Mapping[str, str]
    status: int = 200


class Api:
    """The routes. ``name`` is that of the cluster, ``tenants`` is ``web.tenants``; ``shown`` are
    paths of others' routes that hold nothing of the cluster.
    """

    def __init__(
        self,
        model: ClusterModel,
        guard: Guard,
        *,
        name: str,
        links: Links | None = None,
        pulse: Callable[[], Pulse] = Pulse,
        period_s: float = PERIOD_S,
        answer_s: float = ANSWER_S,
        tenants: Mapping[str, str] | None = None,
        shown: Collection[str] = (),
        history: JobHistory | None = None,
    ) -> None:
        self._model, self._guard = model, guard
        self._name, self._links = name, links or Links()
        self._thread = ThreadPoolExecutor(1, "api")
        self._pulse, self._history = pulse, history
        self._waiting: Counter[Owners] = Counter()
        self._bodies = 0
        self.bodies = frozenset(each.path for each in OPERATIONS if each.body is not None)
        self._health: dict[str, Health] = {}
        # The last answers with an ETag, by operation and reader: with their version, and when they
        # were true, which each answer says.
        self._versioned: dict[tuple[str, Owners], tuple[tuple[str, int], bytes, bytes]] = {}
        self._parts: tuple[Cluster | None, dict[frozenset[str], tuple[Cluster, Runs]]] = None, {}
        opened = [each.path for each in OPERATIONS if each.tenants]
        self._readers = Readers(tenants or {}, [*opened, openapi.PATH, *shown])
        self._stream = Stream(Feed(pulse), self._guarded, period_s=period_s, answer_s=answer_s)
        self._document = orjson.dumps(openapi.document(OPERATIONS))

    def add(self, app: web.Application) -> None:
        """Add the routes to an application."""
        for operation in OPERATIONS:
            handler = self._stream.handle if operation.handler is None else self._handler(operation)
            if operation.form is not None:
                handler = self._explanation(operation)
            app.router.add_route(operation.method, operation.path, handler)
            if operation.method == "GET" and operation.handler is not None:
                app.router.add_head(operation.path, handler)  # what GET sends, without the body
        app.router.add_get(openapi.PATH, self._openapi)
        app.middlewares.extend((_problems, self._readers.admit))
        app.on_shutdown.append(self._stream.end)

    async def close(self) -> None:
        """End the thread. What it is making is made."""
        await asyncio.to_thread(self._thread.shutdown)

    async def in_thread(self, work: Callable[[View], T], owners: Owners = None) -> T:
        """What ``work`` makes of the cluster as it is now, in the thread of the API, for a reader
        who sees what is of these ``owners``.

        Problem 503 where too many wait.
        """
        if not self._may_wait(owners):
            raise Problem(503, "too many requests are waiting")
        self._waiting[owners] += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._thread, lambda: work(self._view()))
        finally:
            self._waiting[owners] -= 1
            self._waiting += Counter()  # drops who waits no more

    def _may_wait(self, owners: Owners) -> bool:
        every, of_all = self._waiting.total(), self._waiting[None]
        if owners is not None and (
            every - of_all >= MAX_OF_TENANTS or self._waiting[owners] >= MAX_OF_TENANT
        ):
            return False
        return every < MAX_WAITING

    async def _guarded(self, work: Callable[[View], T]) -> T:
        """Likewise; Problem 500 where it fails, which is counted and logged."""
        return await self.in_thread(
            lambda view: self._called("api_stream", "the stream", lambda: work(view))
        )

    def _view(self) -> View:
        """The cluster as it is now; in the thread of the API alone."""
        cluster = self._called("api_cluster", "the read model", self._model.snapshot)
        runs = self._history.runs if self._history is not None else Runs()
        return View(self._name, cluster, self._links, self._pulse().present, runs)

    def _handler(self, operation: Operation) -> Callable[[web.Request], Any]:
        async def handle(request: web.Request) -> web.StreamResponse:
            given = [*request.match_info.items(), *request.query.items()]
            values = read(operation.parameters, given)
            if operation.body is None:
                return await self._response(request, operation, values, b"")
            if self._bodies >= MAX_BODIES:
                raise Problem(503, "too many requests with a body are being read")
            self._bodies += 1
            try:
                body = await _body(request, operation.body.max_bytes)
                return await self._response(request, operation, values, body)
            finally:
                self._bodies -= 1

        return handle

    def _explanation(self, operation: Operation) -> Callable[[web.Request], Any]:
        """The page of a run: found as all answers are made, then made elsewhere."""

        def found(view: View, values: Values) -> StoredRun | Problem:
            assert operation.handler is not None  # noqa: S101 - it has one
            try:
                run: StoredRun = operation.handler(view, values, None)
                return run
            except Problem as wrong:
                return wrong

        async def handle(request: web.Request) -> web.StreamResponse:
            assert operation.form is not None  # noqa: S101 - that is why it is here
            values, owners = read(operation.parameters, request.query.items()), request.get(OWNERS)
            name, path = f"api_{operation.id}", operation.path
            run = await self.in_thread(
                lambda view: self._called(
                    name, path, lambda: found(self._seen(view, owners), values)
                ),
                owners,
            )
            if isinstance(run, Problem):
                raise run
            assert self._history is not None  # noqa: S101 - the run is of it
            try:
                body = await self._history.page(run, operation.form, whole=owners is None)
            except GoneError:
                raise Problem(404, f"job: no such run is stored: {values['job']}", "job") from None
            except BusyError as error:
                raise Problem(503, f"job: {error}") from None
            charset = None if operation.form == "json" else "utf-8"
            answer = web.Response(body=body, content_type=operation.media, charset=charset)
            if operation.form == "html":
                answer.headers["Content-Security-Policy"] = PAGE_POLICY
            return answer

        return handle

    async def _response(
        self, request: web.Request, operation: Operation, values: Values, body: bytes
    ) -> web.StreamResponse:
        gzip = accepts_gzip(",".join(request.headers.getall("Accept-Encoding", ())))
        asked = _Request(operation, values, body, gzip, _tags(request), request.get(OWNERS))
        answer = await self.in_thread(lambda view: self._made(asked, view), asked.owners)
        return web.Response(body=answer.body, status=answer.status, headers=answer.headers)

    def _made(self, asked: _Request, view: View) -> _Answer:
        """The answer; a failure is counted each time and logged once."""
        name, path = f"api_{asked.operation.id}", asked.operation.path
        made = self._called(name, path, lambda: self._answer(asked, self._seen(view, asked.owners)))
        if isinstance(made, Problem):
            raise made
        return made

    def _seen(self, view: View, owners: Owners) -> View:
        """What the owners see of it; made once per snapshot."""
        if owners is None:
            return view
        if self._parts[0] is not view.cluster:
            self._parts = view.cluster, {}
        parts = self._parts[1]
        if owners not in parts:
            parts[owners] = part_of(view.cluster, owners), view.runs.of(owners)
        cluster, runs = parts[owners]
        return replace(view, cluster=cluster, links=Links(), runs=runs)

    def _called(self, name: str, what: str, work: Callable[[], T]) -> T:
        made, error = self._guard.call("web", name, work)
        health = self._health.setdefault(name, Health(f"the answer of {what}"))
        if error is not None:
            health.failed(f"{type(error).__name__}: {error}", time.monotonic_ns())
            raise Problem(500, "the answer could not be made; the gateway's log has the cause")
        health.succeeded()
        return cast("T", made)

    def _answer(self, asked: _Request, view: View) -> _Answer | Problem:
        operation = asked.operation
        assert operation.handler is not None  # noqa: S101 - others are not served by this
        headers = {"Content-Type": operation.media, "Vary": "Accept-Encoding"}
        version = operation.version(view, asked.values) if operation.version is not None else ""
        if version:
            headers["ETag"] = f'W/"{version}"'
            if headers["ETag"] in asked.known or "*" in asked.known:
                return _Answer(b"", headers, 304)
        kept = self._versioned.get((operation.id, asked.owners)) if version else None
        if kept is not None and kept[0] == (version, view.cluster.time_ns):
            _, body, packed = kept
        else:
            try:
                decoded = _decoded(asked.body) if operation.body is not None else None
                document = operation.handler(view, asked.values, decoded)
            except Problem as wrong:  # an answer, and no failure
                return wrong
            body, packed = orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY), b""
        if asked.gzip and len(body) >= MIN_GZIP:
            packed = packed or compress(body)
            headers["Content-Encoding"] = "gzip"
        if version:
            made = version, view.cluster.time_ns
            self._versioned[operation.id, asked.owners] = made, body, packed
        return _Answer(packed if "Content-Encoding" in headers else body, headers)

    async def _openapi(self, request: web.Request) -> web.StreamResponse:
        read((), request.query.items())
        tag = f'"{blake2b(self._document, digest_size=8).hexdigest()}"'
        headers = {"ETag": tag, "Content-Type": "application/json"}
        if tag in _tags(request):
            return web.Response(status=304, headers=headers)
        return web.Response(body=self._document, headers=headers)


async def _body(request: web.Request, most: int) -> bytes:
    """A JSON body of at most so many bytes; the connection's deadline bounds the time."""
    if request.content_type != "application/json":
        raise Problem(415, f"the body: application/json, not {request.content_type!r:.80}")
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise Problem(415, "the body: without Content-Encoding")
    parts, size = [], request.content_length or 0
    if size > most:
        raise Problem(413, f"the body: at most {most} bytes")
    size = 0
    async for part in request.content.iter_any():
        size += len(part)
        if size > most:
            raise Problem(413, f"the body: at most {most} bytes")
        parts.append(part)
    return b"".join(parts)


def _decoded(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except ValueError as error:
        raise Problem(400, f"the body: {error}") from None


def _tags(request: web.Request) -> tuple[str, ...]:
    header = ",".join(request.headers.getall("If-None-Match", ()))
    return tuple(tag.strip() for tag in header.split(","))


@web.middleware
async def _problems(
    request: web.Request, handler: Callable[[web.Request], Any]
) -> web.StreamResponse:
    """Refusals below the API's paths, the server's own too, as problem documents."""
    headers: dict[str, str] = {}
    try:
        response: web.StreamResponse = await handler(request)
        return response
    except Problem as error:
        wrong = error
    except web.HTTPException as error:
        if error.status < 400 or not request.path.startswith(PREFIXES):
            raise
        wrong = Problem(error.status, f"{error.reason}: {request.method} {request.path[:200]!r}")
        headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
    if wrong.status == 503:
        headers["Retry-After"] = "1"
    response = web.Response(
        status=wrong.status,
        body=orjson.dumps(wrong.document()),
        headers={"Content-Type": problem.MEDIA, **headers},
    )
    if request.can_read_body:  # what is left of it is not waited for
        response.force_close()
    return response
