"""The OpenAPI document: valid, complete, and what is served."""

from __future__ import annotations

import asyncio
import runpy

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from gateway.api.openapi import PATH
from gateway.api.operations import OPERATIONS
from tests.gateway.api.server import described, get, serving
from tests.gateway.cluster import SimulatedCluster
from tests.sources import ROOT


@pytest.mark.slow
def test_it_is_a_valid_document() -> None:
    """By the validator of others."""
    OpenAPIV31SpecValidator(described()).validate()


def test_it_is_served_with_an_etag() -> None:
    """And not sent again to who has it."""

    async def ask() -> None:
        async with serving(SimulatedCluster(1)) as client:
            first = await client.get(PATH)
            assert first.document == described()
            again = await client.get(PATH, headers={"If-None-Match": first.headers["ETag"]})
            assert again.status == 304

    asyncio.run(ask())


def test_every_operation_is_in_it_and_is_served() -> None:
    """One registry: a path is documented, and answers as documented without any parameter."""
    cluster = SimulatedCluster(1)
    for operation in OPERATIONS:
        found = described()["paths"][operation.path][operation.method.lower()]
        assert found["operationId"] == operation.id
        required = [each for each in operation.parameters if each.required]
        if operation.method == "GET" and operation.handler is not None and not required:
            assert get(cluster, operation.path).status == 200


def test_the_page_and_the_document_are_fresh() -> None:
    """docs/api.md and docs/openapi.json are what `make docs` would write now."""
    built = runpy.run_path(str(ROOT / "docs" / "build_api.py"))
    for target, made in ((built["TARGET"], built["page"]), (built["DOCUMENT"], built["openapi"])):
        assert target.read_text(encoding="utf-8") == made(), "stale: run make docs"
