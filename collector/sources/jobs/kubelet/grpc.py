"""One unary gRPC call over a Unix socket: HTTP/2 by h2, messages as bytes.

A tenth of what grpcio keeps in memory.

Protocol: gRPC over HTTP/2 (grpc/doc/PROTOCOL-HTTP2.md). No compression is
offered, so none may come back.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import ProtocolError

from collector.node.helper import client
from collector.node.helper.protocol import Kind

# of an answer: what dcgm-exporter allows the same socket; a node of 110 pods answers 50 kB
MAX_BYTES = 16 << 20
MAX_MESSAGE = 200
_HEAD = 5  # a flag for compression and four bytes of length before each message
_CHUNK = 1 << 16

# google.rpc.Code
DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE = 4, 8, 12, 13, 14


class GrpcError(OSError):
    """The call gave no answer: ``code`` is gRPC's number for why."""

    def __init__(self, code: int, message: str) -> None:
        shown = "".join(c if c.isprintable() else "?" for c in message[:MAX_MESSAGE])
        super().__init__(f"gRPC status {code}: {shown}")
        self.code = code


def call(
    path: Path, method: str, request: bytes = b"", *, timeout_s: float, max_bytes: int = MAX_BYTES
) -> bytes:
    """The complete answer to one call.

    GrpcError with the server's status, or ours where the server is absent, slow or no gRPC server.
    """
    deadline = time.monotonic() + timeout_s
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.settimeout(timeout_s)
            with contextlib.closing(_connected(connection, path)) as connected:
                connected.settimeout(timeout_s)
                return _Call(connected, deadline, max_bytes).run(method, request)
        except TimeoutError as error:
            raise GrpcError(DEADLINE_EXCEEDED, f"{path}: no answer in {timeout_s:g} s") from error
        except ProtocolError as error:
            raise GrpcError(INTERNAL, f"{path}: not HTTP/2: {error}") from error
        except GrpcError:
            raise
        except OSError as error:
            raise GrpcError(UNAVAILABLE, f"{path}: {error.strerror or error}") from error


def _connected(connection: socket.socket, path: Path) -> socket.socket:
    """The connection, or one that the helper made: the kubelet's socket is root's."""
    try:
        connection.connect(str(path))
    except (FileNotFoundError, PermissionError):
        if not client.available():
            raise
        return socket.socket(fileno=client.ask(Kind.KUBELET).fd)
    return connection


class _Call:
    """One call on a connection of its own."""

    def __init__(self, connection: socket.socket, deadline: float, max_bytes: int) -> None:
        self._connection, self._deadline, self._most = connection, deadline, max_bytes
        self._http = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self._body = bytearray()
        self._headers: dict[str, str] = {}
        self._ended = False

    def run(self, method: str, request: bytes) -> bytes:
        http = self._http
        http.initiate_connection()
        stream = http.get_next_available_stream_id()
        http.send_headers(stream, _headers(method, self._left()))
        http.send_data(stream, b"\0" + len(request).to_bytes(4, "big") + request, end_stream=True)
        self._send()
        while not self._ended:
            data = self._receive()
            if not data:
                raise GrpcError(UNAVAILABLE, "the server closed the connection")
            self._take(http.receive_data(data), stream)
            self._send()
        http.close_connection()
        self._send()
        return self._message()

    def _take(self, events: Iterable[Event], stream: int) -> None:
        for event in events:
            if isinstance(event, ResponseReceived | TrailersReceived):
                self._headers.update((str(name), str(value)) for name, value in event.headers or ())
            elif isinstance(event, DataReceived):
                self._body += event.data
                if len(self._body) > self._most + _HEAD:
                    raise GrpcError(
                        RESOURCE_EXHAUSTED, f"the answer is longer than {self._most} bytes"
                    )
                self._http.acknowledge_received_data(event.flow_controlled_length, stream)
            elif isinstance(event, StreamEnded):
                self._ended = True
            elif isinstance(event, StreamReset | ConnectionTerminated) and not self._ended:
                raise GrpcError(
                    UNAVAILABLE, f"the server broke off, HTTP/2 error {event.error_code}"
                )

    def _message(self) -> bytes:
        if (status := self._headers.get(":status")) != "200":
            raise GrpcError(UNAVAILABLE, f"HTTP status {status}")
        code = self._headers.get("grpc-status", "")
        if code != "0":
            reason = unquote(self._headers.get("grpc-message", ""), errors="replace")
            raise GrpcError(
                int(code) if code.isascii() and code.isdecimal() and len(code) < 3 else INTERNAL,
                reason,
            )
        length = int.from_bytes(self._body[1:_HEAD], "big")
        if len(self._body) < _HEAD or self._body[0] or len(self._body) != _HEAD + length:
            raise GrpcError(INTERNAL, "the answer is not one plain message")
        return bytes(self._body[_HEAD:])

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def _send(self) -> None:
        self._connection.settimeout(self._left())
        self._connection.sendall(self._http.data_to_send())

    def _receive(self) -> bytes:
        self._connection.settimeout(self._left())
        return self._connection.recv(_CHUNK)


def _headers(method: str, left_s: float) -> list[tuple[str, str]]:
    return [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", method),
        (":authority", "localhost"),
        ("grpc-timeout", f"{max(int(left_s * 1000), 1)}m"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("user-agent", "tocsin"),
    ]
