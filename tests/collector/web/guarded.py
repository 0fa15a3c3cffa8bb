"""A server under a web configuration on a free port of the loopback, and clients with
certificates of ours or of others.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from collector.config.web.security import WebFile
from collector.web import Web
from collector.web.connections import Connections
from pipeline.catalog import agent
from pipeline.clock import SystemClock
from pipeline.guard import Guard
from pipeline.selfmetrics import SelfMetrics
from tests.certificates import Authority
from tests.collector.web.test_server import FakePages
from tests.wait import PATIENCE_S

AUTHORITY = Authority()


class Guarded:
    """A running server: its address, its counts of refusals, its connections."""

    def __init__(self, web: Web, address: str, metrics: SelfMetrics) -> None:
        self.web, self.address, self.metrics = web, address, metrics
        self.host, _, port = address.rpartition(":")
        self.port = int(port)

    @property
    def connections(self) -> Connections:
        """Those of its main listener."""
        assert self.web._listener.connections is not None
        return self.web._listener.connections

    def refused(self, reason: str) -> float:
        """How many were turned away."""
        return self.metrics.value(agent.WEB_REFUSED, reason) or 0.0

    async def get(
        self, path: str = "/metrics", client: ssl.SSLContext | None = None, **headers: str
    ) -> tuple[int, str]:
        """Status and body of a request on a connection of its own;
        aiohttp.ClientError where there is none.
        """
        scheme = "http" if client is None else "https"
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        async with (
            aiohttp.ClientSession() as session,
            session.get(
                f"{scheme}://{self.address}{path}", ssl=client or True, headers=given
            ) as answer,
        ):
            return answer.status, await answer.text()

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A bare connection that has reached the server."""
        before = len(self.connections)
        opened = await asyncio.open_connection(self.host, self.port)
        async with asyncio.timeout(PATIENCE_S):
            while len(self.connections) == before:  # noqa: ASYNC110 - a set has no event for it
                await asyncio.sleep(0)
        return opened


def configure(folder: Path, **sections: Any) -> Path:
    """A web configuration beside a certificate of ours, and the authority of clients."""
    AUTHORITY.server().write(folder, "node")
    (folder / "ca.crt").write_bytes(AUTHORITY.certificate)
    fresh = folder / "fresh.yml"
    fresh.write_text(yaml.safe_dump(sections))
    return fresh.replace(folder / "web.yml")


def tls(**keys: Any) -> dict[str, Any]:
    """Keys of tls_server_config with the certificate of ``configure``."""
    return {"cert_file": "node.crt", "key_file": "node.key"} | keys


MUTUAL = tls(client_auth_type="RequireAndVerifyClientCert", client_ca_file="ca.crt")


def client(folder: Path, *names: str, by: Authority = AUTHORITY, days: float = 1) -> ssl.SSLContext:
    """A client that trusts our authority and shows a certificate with these names, signed by
    ``by``; without names it shows none.
    """
    context = ssl.create_default_context(cadata=AUTHORITY.certificate.decode())
    if names:
        context.load_cert_chain(*by.client(*names, days=days).write(folder, "client"))
    return context


@asynccontextmanager
async def serving(
    file: Path | None = None, page: bytes = b"up 1\n", **settings: Any
) -> AsyncIterator[Guarded]:
    """A started server."""
    metrics = SelfMetrics()
    pages: Any = FakePages(page)  # only the metrics are looked at
    web = Web(
        pages,
        Guard(metrics, SystemClock()),
        ["127.0.0.1:0"],
        file=WebFile(file) if file is not None else None,
        metrics=metrics,
        **settings,
    )
    bound = await web.start()
    try:
        yield Guarded(web, bound[0], metrics)
    finally:
        await web.stop()
