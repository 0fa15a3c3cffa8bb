"""The API of a simulated cluster behind the real server, and a client that holds every answer to
the OpenAPI document.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import aiohttp
from jsonschema import Draft202012Validator
from multidict import CIMultiDictProxy
from yarl import URL

from collector.config.web.security import WebFile
from collector.web import Web
from gateway.api import Api
from gateway.api.openapi import document
from gateway.api.operations import OPERATIONS
from pipeline.clock import SystemClock
from pipeline.guard import Guard
from pipeline.selfmetrics import SelfMetrics
from tests.collector.web.test_server import FakePages
from tests.gateway.cluster import SimulatedCluster


@dataclass(frozen=True)
class Answer:
    """Status, headers and body, decoded where it is JSON."""

    status: int
    headers: Mapping[str, str] | CIMultiDictProxy[str]
    body: bytes
    document: Any = None

    def __getitem__(self, name: str) -> Any:
        return self.document[name]


@dataclass
class Client:
    """Asks one server."""

    url: str
    session: aiohttp.ClientSession
    web: Web
    metrics: SelfMetrics = field(default_factory=SelfMetrics)

    async def get(
        self, path: str, /, *, headers: Mapping[str, str] | None = None, **query: Any
    ) -> Answer:
        """One request; the answer is as documented."""
        return await self.ask("GET", path, headers=headers, query=query)

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Answer:
        """Likewise, with any method and body."""
        url = URL(self.url + path, encoded=True).update_query(
            {name: str(value) for name, value in (query or {}).items()}
        )
        async with self.session.request(method, url, headers=headers, data=body) as response:
            raw = await response.read()
            media = response.content_type
            decoded = json.loads(raw) if media.endswith("json") and raw else None
            answer = Answer(response.status, response.headers, raw, decoded)
        documented(method, path, answer, media)
        return answer


@cache
def described() -> dict[str, Any]:
    """The OpenAPI document."""
    return document(OPERATIONS)


def documented(method: str, path: str, answer: Answer, media: str) -> None:
    """AssertionError where an answer of a known path is not as its document says."""
    found = described()["paths"].get(_template(path), {}).get(method.lower())
    if found is None:
        return
    allowed = found["responses"].get(str(answer.status))
    assert allowed is not None, f"{answer.status} of {path} is not documented: {answer.body!r}"
    if "$ref" in allowed:
        allowed = described()["components"]["responses"][allowed["$ref"].rpartition("/")[2]]
    if "content" in allowed:
        schema = allowed["content"][media]["schema"]
        if answer.document is not None:
            whole = {**schema, "components": described()["components"]}
            Draft202012Validator(whole).validate(answer.document)


def _template(path: str) -> str:
    known, path = described()["paths"], path.partition("?")[0]
    return path if path in known else f"{path.rpartition('/')[0]}/{{id}}"


@asynccontextmanager
async def serving(
    cluster: SimulatedCluster, *, file: WebFile | None = None, **settings: Any
) -> AsyncIterator[Client]:
    """The API of a cluster, on a free port; ``file`` is its web configuration."""
    metrics = SelfMetrics()
    guard = Guard(metrics, SystemClock())
    api = Api(cluster.model, guard, name="c1", **settings)
    pages: Any = FakePages()
    web = Web(
        pages,
        guard,
        ["127.0.0.1:0"],
        file=file,
        metrics=metrics,
        site=api.add,
        bodies=api.bodies,
    )
    (address,) = await web.start()
    try:
        async with aiohttp.ClientSession(auto_decompress=True) as session:
            yield Client(f"http://{address}", session, web, metrics)
    finally:
        await web.stop()
        await api.close()


def get(cluster: SimulatedCluster, path: str, /, **query: Any) -> Answer:
    """One request to a server of its own."""

    async def asked() -> Answer:
        async with serving(cluster) as client:
            return await client.get(path, **query)

    return asyncio.run(asked())
