"""Requests of any parameters: each answer is one that the OpenAPI document describes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.api.operations import OPERATIONS
from tests.gateway.api.server import described, serving
from tests.gateway.cluster import SimulatedCluster

Request = tuple[str, dict[str, str]]
STREAM = "/api/v1/stream"  # has no end
NAMES = ("node-0000", "rack-00", "leaf-0-0", "0")  # some that there are

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=0, max_size=40)


def _value(schema: dict[str, Any]) -> st.SearchStrategy[str]:
    """Of a parameter: what its schema allows, and what it does not."""
    allowed: st.SearchStrategy[str] = st.sampled_from(NAMES)
    if "enum" in schema:
        allowed = st.sampled_from(schema["enum"])
    elif schema["type"] == "integer":
        allowed = st.integers(schema["minimum"] - 2, schema["maximum"] + 2).map(str)
    elif "pattern" in schema:
        allowed = st.from_regex(schema["pattern"], fullmatch=True)
    return st.one_of(allowed, _TEXTS, st.just("9" * 600))


def _requests() -> st.SearchStrategy[Request]:
    every = []
    for path, methods in described()["paths"].items():
        if "get" not in methods or path == STREAM:
            continue
        values = {
            one["name"]: _value(one["schema"])
            for one in methods["get"].get("parameters", ())
            if one["in"] == "query"
        }
        every.append(st.tuples(st.just(path), st.fixed_dictionaries({}, optional=values)))
    return st.one_of(every)


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(requests=st.lists(_requests(), min_size=10, max_size=40))
def test_an_answer_to_anything_is_as_documented_and_no_error_of_the_gateway(
    requests: list[Request],
) -> None:
    """The client holds each answer to the document (server.py)."""

    async def asked() -> None:
        async with serving(SimulatedCluster(1)) as client:
            for path, query in requests:
                answer = await client.ask("GET", path.replace("{id}", "0abc"), query=query)
                assert answer.status < 500, answer.body

    asyncio.run(asked())


def test_each_operation_is_asked() -> None:
    """None is left out but the stream."""
    paths = {one.path for one in OPERATIONS if one.method == "GET"}
    assert STREAM in paths
    assert len(paths) > 8
