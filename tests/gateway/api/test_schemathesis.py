"""Requests that Schemathesis makes of the OpenAPI document: none finds a fault."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from gateway.api.openapi import PATH
from gateway.api.operations import OPERATIONS
from tests.gateway.api.server import serving
from tests.gateway.cluster import SimulatedCluster

STREAM = "/api/v1/stream"  # has no end
PROGRAM = Path(sys.executable).with_name("schemathesis")


@pytest.mark.slow
def test_schemathesis_finds_no_fault(tmp_path: Path) -> None:
    """With all of its checks: statuses, media and schemas as documented, wrong data refused, right
    data taken, methods that are not documented, passwords.
    """

    async def ask() -> tuple[int | None, str]:
        async with serving(SimulatedCluster(2)) as client:
            run = await asyncio.create_subprocess_exec(
                *(str(PROGRAM), "run", client.url + PATH, "--exclude-path", STREAM),
                *("--max-examples", "10", "--seed", "1", "--generation-database", "none"),
                *("--no-color", "--warnings", "off"),
                cwd=tmp_path,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            output, _ = await run.communicate()
            return run.returncode, output.decode()

    status, output = asyncio.run(ask())
    assert status == 0, output
    asked = [each for each in OPERATIONS if each.path != STREAM]
    assert f"Tested: {len(asked)}\n" in output
