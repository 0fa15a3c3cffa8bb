"""A control socket in a directory: one JSON line each way, for root and the user
who runs the process only.

Requests: ``{"command": "inject", "spec": "xid@gpu2:code=79"}``. Answers: ``{"ok": true, ...}`` or
``{"ok": false, "error": "..."}``.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SOCKET = "control.sock"
MAX_LINE = 65536  # bytes of a question
# Bytes of an answer. The largest is that to `tocsin check`: some 110 for each port, of which Linux
# has at most 8192 (RDMA_MAX_PORTS, drivers/infiniband/core/core_priv.h), virtual functions too.
MAX_ANSWER = 4 << 20
# for a client that connects and does not speak; on a node without a free core one may take seconds
PATIENCE_S = 5.0
RETRY_S = 0.5  # where a connection cannot be taken

Handler = Callable[[dict[str, Any]], dict[str, Any]]


class Control:
    """Listens in a thread of its own; one client at a time, one request per connection."""

    def __init__(self, directory: Path, handler: Handler) -> None:
        self._directory, self._handler = directory, handler
        (directory / SOCKET).unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        os.fchmod(
            self._socket.fileno(), 0o600
        )  # on Linux the file gets the mode its socket has before it is bound
        with _short(directory) as address:
            self._socket.bind(address)
        self._socket.listen(8)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="control", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._closed.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(PATIENCE_S + 1)
        (self._directory / SOCKET).unlink(missing_ok=True)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:  # closed, or out of open files for a while
                if self._closed.wait(RETRY_S):
                    return
                continue
            with client, contextlib.suppress(OSError):
                client.settimeout(PATIENCE_S)
                client.sendall(json.dumps(self._answer(client)).encode() + b"\n")

    def _answer(self, client: socket.socket) -> dict[str, Any]:
        try:
            _, user, _ = struct.unpack(
                "3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            )
            if user not in (0, os.geteuid()):
                raise PermissionError("only root and the user whom this process belongs to may ask")
            request = json.loads(_line(client, MAX_LINE))
            if not isinstance(request, dict):
                raise ValueError("a request is one JSON object on one line")  # noqa: TRY004 - the client is wrong, not a caller
            return {"ok": True, **self._handler(request)}
        except (OSError, RecursionError, ValueError) as error:
            return {"ok": False, "error": str(error)}


def request(
    directory: Path, message: dict[str, Any], *, what: str = "simulation", timeout_s: float = 5.0
) -> dict[str, Any]:
    """Ask who listens in a directory (``what`` they are).

    ValueError with their words where they refuse; ConnectionError where none is there.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(timeout_s)
        try:
            with _short(directory) as address:
                client.connect(address)
        except OSError as error:
            raise ConnectionError(
                f"no {what} is running in {directory} ({error.strerror or error})"
            ) from error
        with contextlib.suppress(BrokenPipeError):  # it waited no longer, and has said so
            client.sendall(json.dumps(message).encode() + b"\n")
            client.shutdown(socket.SHUT_WR)
        line = _line(client, MAX_ANSWER)
    if not line:
        raise ConnectionError(f"the {what} in {directory} ended before it answered")
    answer = json.loads(line)
    if not answer.pop("ok", False):
        raise ValueError(answer.get("error", "refused without a reason"))
    return dict(answer)


def _line(peer: socket.socket, most: int) -> bytes:
    data = bytearray()
    while chunk := peer.recv(MAX_LINE):
        line, end, _ = chunk.partition(b"\n")
        data += line
        if len(data) > most:
            raise ValueError(f"line of more than {most} bytes")
        if end:
            break
    return bytes(data)


@contextlib.contextmanager
def _short(directory: Path) -> Iterator[str]:
    """A socket's address below 108 bytes, whatever the length of the directory's name."""
    folder = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{SOCKET}"
    finally:
        os.close(folder)
