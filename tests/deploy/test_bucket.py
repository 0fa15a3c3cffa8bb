"""tools/bucket.py: the bucket of docker-compose.yml is made once the object store answers."""

from __future__ import annotations

import http.server
import runpy
import socket
import threading

import pytest

from tests.sources import ROOT

BUCKET = runpy.run_path(str(ROOT / "tools" / "bucket.py"))
make = BUCKET["make"]


class StartingStore(http.server.BaseHTTPRequestHandler):
    """Answers the first two requests as a server does that is not ready."""

    requests: list[str]

    def do_PUT(self) -> None:
        """A bucket."""
        self.requests.append(self.path)
        self.send_response(503 if len(self.requests) < 3 else 200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """No log."""


@pytest.mark.slow
def test_the_bucket_is_made_once_the_store_is_ready() -> None:
    """Refused requests are repeated after a pause, and none follows the one that succeeds."""
    pauses: list[int] = []
    requests: list[str] = []
    handler = type("Handler", (StartingStore,), {"requests": requests})
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        make(f"http://127.0.0.1:{server.server_port}/tocsin", lambda: pauses.append(1))
        server.shutdown()
    assert requests == ["/tocsin"] * 3
    assert len(pauses) == 2


def test_a_store_that_never_answers_is_an_error() -> None:
    """The last refusal is raised, after a minute of attempts."""
    pauses: list[int] = []
    with socket.socket() as bound:  # nobody listens, and nobody else gets the port
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(OSError, match="refused"):
            make(f"http://127.0.0.1:{bound.getsockname()[1]}/tocsin", lambda: pauses.append(1))
    assert len(pauses) == BUCKET["ATTEMPTS"] - 1
