"""Requests that are wrong, hostile or too many."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from gateway.api import serving as server
from gateway.api.operation import View
from gateway.api.operations import OPERATIONS
from gateway.api.problem import Problem
from gateway.api.serving import Api
from pipeline.clock import SystemClock
from pipeline.guard import Guard
from pipeline.selfmetrics import SelfMetrics
from tests.gateway.api.server import get, serving
from tests.gateway.cluster import SimulatedCluster


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ({"limit": "x"}, "limit"),
        ({"limit": "0"}, "limit"),
        ({"limit": "1001"}, "limit"),
        ({"limit": "9" * 5000}, "limit"),
        ({"limit": "\u0661"}, "limit"),
        ({"limit": ""}, "limit"),
        ({"state": "OPEN"}, "state"),
        ({"host": ""}, "host"),
        ({"host": "x" * 513}, "host"),
        ({"cursor": "../../etc"}, "cursor"),
        ({"nonsense": "1"}, "nonsense"),
    ],
)
def test_a_wrong_parameter_is_named(query: dict[str, str], parameter: str) -> None:
    """With what it may be, as a problem document."""
    found = get(SimulatedCluster(1), "/api/v1/incidents", **query)
    assert (found.status, found["parameter"]) == (400, parameter)
    assert parameter in found["detail"]
    assert len(found["detail"]) <= 500


def test_a_cursor_that_no_answer_gave_is_not_found() -> None:
    """It names a page that is not there."""
    found = get(SimulatedCluster(1), "/api/v1/incidents", cursor="AAAA")
    assert (found.status, found["parameter"]) == (404, "cursor")


def test_a_parameter_that_comes_twice_is_refused() -> None:
    """Which of the two would count is nobody's guess."""

    async def ask() -> Any:
        async with serving(SimulatedCluster(1)) as client:
            return await client.get("/api/v1/incidents?limit=1&limit=2")

    found = asyncio.run(ask())
    assert (found.status, found["parameter"]) == (400, "limit")


@pytest.mark.parametrize(
    "value", ["%ff%fe", "%00", "%0d%0aSet-Cookie:x", "%F0%9F%92%A9", "'--", "{}"]
)
def test_any_bytes_are_a_name_that_nobody_has(value: str) -> None:
    """An empty page, no error, and nothing of it in a header."""

    async def ask() -> Any:
        async with serving(SimulatedCluster(1)) as client:
            found = await client.get(f"/api/v1/incidents?host={value}")
            assert "Set-Cookie" not in found.headers
            return found

    assert asyncio.run(ask())["incidents"] == []


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/nowhere", 404),
        ("GET", "/api/v1/incidents/zz", 400),
        ("DELETE", "/api/v1/incidents", 405),
        ("PUT", "/api/v1/topology", 405),
        ("GET", "/api/v1/status", 404),
    ],
)
def test_what_is_not_there_is_a_problem_document(method: str, path: str, status: int) -> None:
    """Nothing here can be written, and the agent's own routes are not the gateway's."""

    async def ask() -> Any:
        async with serving(SimulatedCluster(1)) as client:
            return await client.ask(method, path)

    found = asyncio.run(ask())
    assert (found.status, found["status"]) == (status, status)
    assert found.headers["Content-Type"] == "application/problem+json"
    assert ("Allow" in found.headers) == (status == 405)


def test_head_asks_what_get_would_say() -> None:
    """Status and headers, without the body (RFC 9110, 9.3.2); probes and caches ask so."""
    paths = [one.path for one in OPERATIONS if one.method == "GET" and one.handler is not None]

    async def ask() -> list[tuple[Any, Any]]:
        async with serving(SimulatedCluster(1)) as client:
            return [(await client.ask("HEAD", path), await client.get(path)) for path in paths]

    for head, got in asyncio.run(ask()):
        assert head.body == b""
        assert head.status == got.status
        assert head.headers["Content-Type"] == got.headers["Content-Type"]
        assert head.headers.get("ETag") == got.headers.get("ETag")
        assert ("Content-Length" in head.headers) == ("Content-Length" in got.headers)


def test_a_body_is_refused_where_none_belongs() -> None:
    """Before it is read."""

    async def ask() -> Any:
        async with serving(SimulatedCluster(1)) as client:
            return await client.ask("GET", "/api/v1/topology", body=b"x" * 100)

    assert asyncio.run(ask()).status == 413


def test_more_than_may_wait_are_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the time after which to ask again; those that wait get their answer."""
    monkeypatch.setattr(server, "MAX_WAITING", 2)
    metrics = SelfMetrics()
    api = Api(SimulatedCluster(1).model, Guard(metrics, SystemClock()), name="c1")
    free = threading.Event()

    async def ask() -> None:
        def slow(_: View) -> int:
            free.wait()
            return 1

        waiting = [asyncio.create_task(api.in_thread(slow)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Problem) as refused:
            await api.in_thread(slow)
        assert refused.value.status == 503
        free.set()
        assert await asyncio.gather(*waiting) == [1, 1]
        await api.close()

    asyncio.run(ask())


def test_requests_of_tenants_keep_nobody_else_out() -> None:
    """Each has places for two pages, and all of them together leave others a third."""
    metrics = SelfMetrics()
    api = Api(SimulatedCluster(1).model, Guard(metrics, SystemClock()), name="c1")
    free = threading.Event()

    def slow(_: View) -> int:
        free.wait()
        return 1

    async def ask() -> None:
        async def refused(*owners: str) -> bool:
            """Whether one more of them is."""
            asked = api.in_thread(slow, frozenset(owners) if owners else None)
            waiting.append(asyncio.create_task(asked))
            await asyncio.sleep(0)
            return waiting[-1].done()

        waiting: list[asyncio.Task[int]] = []
        assert [await refused("user:a") for _ in range(11)] == [False] * 10 + [True]
        assert not any([await refused("user:b") for _ in range(10)])
        assert await refused("user:c")
        assert not any([await refused() for _ in range(12)])
        assert await refused()
        free.set()
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert (answers.count(1), len(answers)) == (32, 35)
        await api.close()

    asyncio.run(ask())


def test_a_fault_of_ours_is_counted_and_shows_no_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client gets a problem document, the log the cause."""
    cluster = SimulatedCluster(1)

    async def ask() -> Any:
        async with serving(cluster) as client:
            monkeypatch.setattr("gateway.api.incidents.rows", lambda *_: 1 / 0)
            found = await client.get("/api/v1/incidents")
            failures = [
                labels
                for metric, rows in client.metrics.series()
                if metric.name == "tocsin_stage_failures_total"
                for labels, _ in rows
            ]
            assert ("web", "api_incidents", "ZeroDivisionError") in failures
            return found

    found = asyncio.run(ask())
    assert found.status == 500
    assert "Zero" not in found.body.decode()
