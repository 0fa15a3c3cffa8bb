"""The stream over a real socket: news at once, an end, and going on after it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from gateway.api import stream
from tests.gateway.api.server import Client, serving
from tests.gateway.cluster import SimulatedCluster
from tests.wait import PATIENCE_S

PATH = "/api/v1/stream"
QUICK: dict[str, Any] = {"period_s": 0.01}


async def events(response: aiohttp.ClientResponse, until: str) -> list[tuple[str, str, Any]]:
    """Name, id and data up to the first event of a name; all where the answer ends before."""
    found = []
    fields: dict[str, str] = {}
    async with asyncio.timeout(PATIENCE_S):
        async for line in response.content:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                fields[name] = value
            elif "event" in fields:
                found.append((fields["event"], fields["id"], json.loads(fields["data"])))
                if fields["event"] == until:
                    break
                fields = {}
    return found


@asynccontextmanager
async def asked(client: Client, last: str = "") -> AsyncIterator[aiohttp.ClientResponse]:
    """An open stream."""
    headers = {"Last-Event-ID": last} if last else None
    response = await client.session.get(client.url + PATH, headers=headers)
    try:
        yield response
    finally:
        response.close()


def test_a_client_sees_what_changes_and_goes_on_after_the_end() -> None:
    """It gets what happened while it was away."""
    cluster = SimulatedCluster()

    async def ask() -> None:
        async with serving(cluster, **QUICK, answer_s=0.2) as client:
            async with asked(client) as first:
                assert first.content_type == "text/event-stream"
                seen = await events(first, "never")
            assert seen[0][0] == "hello"
            cluster.find(cluster.gpu(1, 0), "gpu_lost", "Lost.")
            cluster.read()
            while seen[-1][0] != "incidents":
                async with asked(client, seen[-1][1]) as again:
                    seen = await events(again, "incidents")
                assert seen[0][0] == "hello"
                assert "reset" not in [name for name, _, _ in seen]
            assert seen[-1][2]["changed"][0]["host"] == "node-0001"

    asyncio.run(ask())


def test_who_was_elsewhere_before_begins_again() -> None:
    """After a take-over by the other gateway."""

    async def ask() -> None:
        async with (
            serving(SimulatedCluster(1), **QUICK) as client,
            asked(client, "0123abcd-77") as stream_,
        ):
            found = await events(stream_, "reset")
            assert [name for name, _, _ in found] == ["hello", "reset"]

    asyncio.run(ask())


def test_streams_are_bounded_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is asked to come later; those that are open go on, and end with the server."""
    monkeypatch.setattr(stream, "MAX_STREAMS", 2)

    async def ask() -> None:
        async with (
            serving(SimulatedCluster(1), **QUICK) as client,
            asked(client) as one,
            asked(client) as other,
        ):
            for each in (one, other):
                await events(each, "hello")
            async with asked(client) as refused:
                assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
            await client.web.stop()
            for each in (one, other):
                await events(each, "never")

    asyncio.run(ask())
