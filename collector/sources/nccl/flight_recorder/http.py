"""PyTorch's worker server on a Unix socket: asks a rank for its Flight
Recorder while the job goes on.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path

from collector.node.helper import client
from collector.node.helper.protocol import Kind
from collector.sources.nccl.sanitize import FormatError
from collector.sources.untrusted import socket_path

TIMEOUT_S = 5.0
MAX_BYTES = 64 << 20
# The first is in CUDA builds, the second in all (torch/csrc/distributed/c10d/control_plane/
# Handlers.cpp). Older CUDA builds have the third alone, or a first one that refuses the query: it
# knows no includestacktraces there (NCCLUtils.cpp).
HANDLERS = ("dump_nccl_trace_json", "fr_trace_json", "dump_nccl_trace_pickle")
QUERY = "includecollectives=true&includestacktraces=false&onlyactive=false"


class _UnixConnection(HTTPConnection):
    """HTTP over whatever ``dial`` connects to."""

    def __init__(self, dial: Callable[[], socket.socket]) -> None:
        super().__init__("localhost", timeout=TIMEOUT_S)
        self._dial = dial

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = self._dial()


def fetch(path: str, root: Path, owner: int | None) -> bytes:
    """The dump, from the socket of one rank.

    OSError where nobody answers in time, FormatError where no handler has a dump.
    """
    for handler in HANDLERS:
        connection = _UnixConnection(lambda: _connected(path, root, owner))
        try:
            connection.request("POST", f"/handler/{handler}?{QUERY}")
            found = dump_in(connection.getresponse())
            if found is not None:
                return found
        except HTTPException as error:
            raise FormatError(f"the worker server answers {error!r}") from error
        finally:
            connection.close()
    raise FormatError("the worker server has no handler that dumps the Flight Recorder")


def _connected(path: str, root: Path, owner: int | None) -> socket.socket:
    """A connection, by way of the helper where the agent may not make it."""
    try:
        fd, reachable = socket_path(path, root=root, owner=owner)
        try:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.settimeout(TIMEOUT_S)
                connection.connect(reachable)
            except OSError:
                connection.close()
                raise
        finally:
            os.close(fd)
    except PermissionError:
        connection = socket.socket(fileno=client.descriptor(Kind.WORKER, root))
        connection.settimeout(TIMEOUT_S)
    return connection


def dump_in(response: HTTPResponse) -> bytes | None:
    """The dump in an answer, None where it is no success.

    HTTPException and OSError of the connection, FormatError where it is too large.
    """
    if response.status != 200:
        return None
    try:
        data = response.read(MAX_BYTES + 1)
    except (OverflowError, ValueError) as error:  # http.client takes a chunk size of -9e30
        raise FormatError(f"the worker server answers {error!r}") from error
    if len(data) > MAX_BYTES:
        raise FormatError(f"the worker server sent more than {MAX_BYTES} bytes")
    return data
