"""A real Alertmanager with our routes, and the receivers it calls."""

from __future__ import annotations

import http.server
import json
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.parts import Part, need
from tests.ports import free_port
from tests.servers import Server
from tests.wait import PATIENCE_S

CONFIG = Path(__file__).parents[2] / "rules" / "alertmanager.yml"


class Receivers:
    """Every receiver's webhook: what each was told, in order."""

    def __init__(self) -> None:
        sent: list[tuple[str, dict[str, Any]]] = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                sent.append((self.path.removeprefix("/"), json.loads(body)))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nothing: the test looks at what was told."""

        self.sent = sent
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def of(self, receiver: str) -> list[dict[str, Any]]:
        """Messages of one receiver."""
        return [message for name, message in self.sent if name == receiver]

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE_S)


class Alertmanager:
    """``prometheus-alertmanager`` with our file, or with ``config`` in its place, its waits
    shortened to a second and its receivers pointed at the test's.
    """

    def __init__(
        self, folder: Path, receivers: Receivers, part: Part = need, config: str = ""
    ) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        text = config or CONFIG.read_text(encoding="utf-8")
        text = text.replace("127.0.0.1:9099", receivers.address)
        text = re.sub(r"group_wait: \w+", "group_wait: 1s", text)
        text = re.sub(r"group_interval: 5m", "group_interval: 1s", text)
        (folder / "alertmanager.yml").write_text(text, encoding="utf-8")
        self.log = folder / "alertmanager.log"
        self._server = Server(
            [
                part("prometheus-alertmanager", "prometheus-alertmanager"),
                f"--config.file={folder / 'alertmanager.yml'}",
                f"--storage.path={folder / 'am'}",
                f"--web.listen-address={self.address}",
                "--cluster.listen-address=",
            ],
            self.log,
            cwd=folder,
        )
        self._server.until(lambda: self._get("/-/ready") is not None, "Alertmanager to be ready")

    def _get(self, path: str) -> bytes | None:
        try:
            with urllib.request.urlopen(
                f"http://{self.address}{path}", timeout=PATIENCE_S
            ) as answer:
                body: bytes = answer.read()
                return body
        except OSError:
            return None

    def fire(self, alerts: Sequence[Mapping[str, str]]) -> None:
        """Post alerts, as Prometheus does."""
        self.post([{"labels": dict(labels)} for labels in alerts])

    def post(self, alerts: Sequence[Mapping[str, Any]]) -> None:
        """The same with their annotations and times."""
        body = json.dumps([dict(alert) for alert in alerts]).encode()
        request = urllib.request.Request(
            f"http://{self.address}/api/v2/alerts",
            data=body,
            headers={"Content-Type": "application/json"},
            method="POST",
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310 - the address is the test's own
            assert answer.status == 200

    def muted(self) -> dict[str, bool]:
        """Alert (its label ``id``) to whether another one mutes it."""
        alerts = json.loads(self._get("/api/v2/alerts?active=true&inhibited=true") or b"[]")
        return {
            alert["labels"].get("id", ""): bool(alert["status"]["inhibitedBy"]) for alert in alerts
        }

    def stop(self) -> None:
        """End it."""
        self._server.end()
