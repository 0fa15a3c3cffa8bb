"""The worker server of a rank: asked over its Unix socket, and survived."""

from __future__ import annotations

import os
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from collector.sources.nccl.flight_recorder import http
from collector.sources.nccl.flight_recorder.http import fetch
from collector.sources.nccl.sanitize import FormatError
from tests.collector.sources.nccl.recordings import DUMPS

DUMP = (DUMPS / "fr_gloo_missing_rank0.json").read_bytes()


class Worker(BaseHTTPRequestHandler):
    """Answers as PyTorch's worker server of a CPU build."""

    has = "fr_trace_json"

    def do_POST(self) -> None:
        """One handler is there."""
        known = self.path.startswith(f"/handler/{self.has}?")
        self.send_response(200 if known else 404)
        self.end_headers()
        self.wfile.write(DUMP if known else b"Handler not found")

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Path]:
    """A folder with a server in it."""
    with socketserver.ThreadingUnixStreamServer(str(tmp_path / "s"), Worker) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield tmp_path
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "handler", ["dump_nccl_trace_json", "fr_trace_json", "dump_nccl_trace_pickle"]
)
def test_a_rank_gives_its_dump(worker: Path, monkeypatch: pytest.MonkeyPatch, handler: str) -> None:
    """By the handler that its build has: CUDA's is asked for first, and a pickle last."""
    monkeypatch.setattr(Worker, "has", handler)
    assert fetch("/s", worker, os.getuid()) == DUMP


def test_a_server_without_a_handler_is_no_source(
    worker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a CPU build of PyTorch before 2.8."""
    monkeypatch.setattr(Worker, "has", "ping")
    with pytest.raises(FormatError, match="no handler"):
        fetch("/s", worker, os.getuid())


def test_a_body_that_is_too_large_is_refused(worker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood ends at the limit."""
    monkeypatch.setattr(http, "MAX_BYTES", 100)
    with pytest.raises(FormatError, match="more than"):
        fetch("/s", worker, os.getuid())


def test_somebody_elses_socket_is_not_asked(worker: Path) -> None:
    """It must belong to the job's user."""
    with pytest.raises(OSError, match="somebody else"):
        fetch("/s", worker, os.getuid() + 1)
