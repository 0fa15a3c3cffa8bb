"""Where notifications arrive in place of PagerDuty, Slack, Teams and a mail server."""

from __future__ import annotations

import email
import email.policy
import http.server
import json
import socketserver
import threading
from email.message import EmailMessage
from typing import Any

from tests.wait import PATIENCE_S

# PagerDuty's answer; Slack's is "ok", and Alertmanager reads it.
ACCEPTED = b'{"status": "success", "message": "Event processed", "dedup_key": "k"}'


class Inbox:
    """An HTTP server that takes JSON, and an SMTP server (RFC 5321, without TLS); use as a context.

    ``messages`` are the bodies that were posted, ``mails`` the mails.
    """

    def __init__(self) -> None:
        messages: list[dict[str, Any]] = []
        mails: list[EmailMessage] = []

        class Post(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                messages.append(message)
                events = "routing_key" in message
                self.send_response(202 if events else 200)
                self.end_headers()
                self.wfile.write(ACCEPTED if events else b"ok")

            def log_message(self, *_: object) -> None:
                """Nothing: the test looks at what arrived."""

        class Smtp(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self.wfile.write(b"220 inbox\r\n")
                for line in self.rfile:
                    command = line.strip().upper()
                    if command == b"DATA":
                        self.wfile.write(b"354 go on\r\n")
                        mails.append(self._mail())
                    self.wfile.write(b"221 bye\r\n" if command == b"QUIT" else b"250 ok\r\n")
                    if command == b"QUIT":
                        return

            def _mail(self) -> EmailMessage:
                lines = iter(self.rfile.readline, b".\r\n")
                text = b"".join(line.removeprefix(b".") for line in lines)
                return email.message_from_bytes(text, EmailMessage, policy=email.policy.default)

        self.messages, self.mails = messages, mails
        http_server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Post)
        smtp_server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Smtp)
        self.url = f"http://127.0.0.1:{http_server.server_address[1]}/"
        self.smarthost = f"127.0.0.1:{smtp_server.server_address[1]}"
        self._servers: list[socketserver.TCPServer] = [http_server, smtp_server]
        self._threads = [
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
            for server in self._servers
        ]

    def __enter__(self) -> Inbox:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for server, thread in zip(self._servers, self._threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join(PATIENCE_S)
