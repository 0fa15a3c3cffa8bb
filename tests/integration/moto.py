"""A real S3 server for tests: moto in a process of its own, on loopback."""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pipeline import child
from tests.wait import until

BUCKET = "tocsin-test"


@contextmanager
def s3_server() -> Iterator[int]:
    """Port of a running server; without the package the test fails in CI and is skipped with its name elsewhere."""
    if importlib.util.find_spec("moto") is None:
        message = "moto is missing: pip install 'moto[server,s3]'"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    port = free_port()
    server = child.Child([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)])
    try:
        until(lambda: _answers(port), "moto", 30)
        yield port
    finally:
        server.kill()
        server.wait(10)


def fresh_bucket(port: int) -> None:
    """An empty server with one empty bucket."""
    for method, path in (("POST", "moto-api/reset"), ("PUT", BUCKET)):
        with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/{path}", method=method)) as answer:
            assert answer.status == 200


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
