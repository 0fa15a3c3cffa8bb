"""A small API server over TLS: one Node, Events, strategic merge of conditions, and Kubernetes' own
schemas over what it is sent.
"""

from __future__ import annotations

import copy
import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.certificates import Authority

VERSION = "1.32"
READY = {
    "type": "Ready",
    "status": "True",
    "reason": "KubeletReady",
    "message": "ready",
    "lastHeartbeatTime": "2027-01-15T07:59:00Z",
    "lastTransitionTime": "2027-01-01T00:00:00Z",
}


class ApiServer:
    """Use as a context.

    ``refuse`` is the HTTP status that everything is answered with while it is set.
    """

    def __init__(self, folder: Path) -> None:
        self.node: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "gpu07"},
            "spec": {},
            "status": {"conditions": [READY]},
        }
        self.events: dict[str, dict[str, Any]] = {}
        self.requests: list[str] = []
        self.refuse = 0
        self.token_file, self.ca_file = folder / "token", folder / "ca.crt"
        authority = Authority()
        self.ca_file.write_bytes(authority.certificate)
        self.rotate("first")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.server().write(folder, "server"))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}
        )

    def __enter__(self) -> ApiServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def rotate(self, token: str) -> None:
        """Another token from now on, as the kubelet does."""
        self._token = token
        self.token_file.write_text(f"{token}\n")

    @property
    def condition(self) -> dict[str, Any]:
        """Ours, empty while there is none."""
        return next(
            (c for c in self.node["status"]["conditions"] if c["type"] == "TocsinGpuProblem"), {}
        )

    def answer(
        self, method: str, path: str, token: str | None, form: str, body: Any
    ) -> tuple[int, dict[str, Any]]:
        """As the API server does for the three requests that the agent's role allows."""
        self.requests.append(f"{method} {path}")
        if self.refuse or token != f"Bearer {self._token}":
            return self.refuse or 401, {"kind": "Status", "status": "Failure", "message": "no"}
        routes: dict[tuple[str, str], Callable[[], tuple[int, dict[str, Any]]]] = {
            ("GET", "/api/v1/nodes/gpu07"): lambda: (200, self.node),
            ("PATCH", "/api/v1/nodes/gpu07/status"): lambda: self._patch(form, body),
            ("POST", "/api/v1/namespaces/default/events"): lambda: self._create(body),
        }
        missing = 404, {"kind": "Status", "status": "Failure", "message": "not found"}
        return routes.get((method, path), lambda: missing)()

    def _patch(self, form: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        assert form == "application/strategic-merge-patch+json"
        assert body.keys() == {"status"}
        assert body["status"].keys() == {"conditions"}
        patched = copy.deepcopy(self.node)
        conditions = {c["type"]: c for c in patched["status"]["conditions"]}
        for one in body["status"]["conditions"]:
            conditions[one["type"]] = {**conditions.get(one["type"], {}), **one}
        patched["status"]["conditions"] = list(conditions.values())
        _validate(patched)
        self.node = patched
        return 200, patched

    def _create(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        _validate(body)
        name = body["metadata"]["name"]
        if name in self.events:
            return 409, {"kind": "Status", "status": "Failure", "reason": "AlreadyExists"}
        self.events[name] = body
        return 201, body


def _handler(server: ApiServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            form = self.headers.get("Content-Type", "")
            body = json.loads(content) if content else None
            status, document = server.answer(
                self.command, self.path, self.headers.get("Authorization"), form, body
            )
            said = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        do_GET = do_PATCH = do_POST = do_DELETE = _answer  # noqa: N815 - http.server's own names

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _validate(manifest: dict[str, Any]) -> None:
    import kubernetes_validate  # noqa: PLC0415 - takes two seconds

    kubernetes_validate.validate(manifest, VERSION, strict=True)
