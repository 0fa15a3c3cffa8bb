"""PyTorch's worker server on a Unix socket: asks a rank for its Flight
Recorder while the job goes on.
"""

from __future__ import annotations

import os
import socket
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from collector.sources.nccl.sanitize import FormatError
from collector.sources.untrusted import socket_path

TIMEOUT_S = 5.0
MAX_BYTES = 64 << 20
# The first is in CUDA builds, the second in all
# (torch/csrc/distributed/c10d/control_plane/Handlers.cpp).
HANDLERS = ("dump_nccl_trace_json", "fr_trace_json")
QUERY = "includecollectives=true&includestacktraces=false&onlyactive=false"


class _UnixConnection(HTTPConnection):
    """HTTP to a path instead of a host."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(self._path)


def fetch(path: str, root: Path, owner: int | None) -> bytes:
    """The dump as JSON, from the socket of one rank.

    OSError where nobody answers in time, FormatError where no handler has a dump.
    """
    fd, reachable = socket_path(path, root=root, owner=owner)
    try:
        for handler in HANDLERS:
            connection = _UnixConnection(reachable)
            try:
                connection.request("POST", f"/handler/{handler}?{QUERY}")
                response = connection.getresponse()
                if response.status == 200:
                    return _body(response.read(MAX_BYTES + 1))
            except HTTPException as error:
                raise FormatError(f"the worker server answers {error!r}") from error
            finally:
                connection.close()
    finally:
        os.close(fd)
    raise FormatError("the worker server has no handler that dumps the Flight Recorder")


def _body(data: bytes) -> bytes:
    if len(data) > MAX_BYTES:
        raise FormatError(f"the worker server sent more than {MAX_BYTES} bytes")
    return data
