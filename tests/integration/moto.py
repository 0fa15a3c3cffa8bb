"""A real S3 server for tests: moto in a process of its own, on loopback."""

from __future__ import annotations

import importlib.util
import socket
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.parts import missing
from tests.ports import free_port
from tests.servers import Server

BUCKET = "tocsin-test"


@contextmanager
def s3_server() -> Iterator[int]:
    """Port of a running server; without the package the test fails in CI and is skipped
    with its name elsewhere.
    """
    if importlib.util.find_spec("moto") is None:
        missing("moto is missing: pip install 'moto[server,s3]'")
    port = free_port()
    argv = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with (
        tempfile.TemporaryDirectory() as folder,
        Server(argv, Path(folder) / "log", name="moto") as server,
    ):
        server.until(lambda: _answers(port), "moto")
        yield port


def fresh_bucket(port: int) -> None:
    """An empty server with one empty bucket."""
    for method, path in (("POST", "moto-api/reset"), ("PUT", BUCKET)):
        with urllib.request.urlopen(
            urllib.request.Request(f"http://127.0.0.1:{port}/{path}", method=method)
        ) as answer:
            assert answer.status == 200


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
