"""A MONITOR connection to one job, held open and read without waiting: deaths of its processes,
as NCCL reports them.

Only of releases that may be asked, and only where it is switched on (``sources.nccl.monitor``): the
first query after a death reports the same sooner.
"""

from __future__ import annotations

import contextlib
import logging
import select
import socket
import time
from collections.abc import Callable

from collector.sources.nccl.ras.address import Address, RasError
from collector.sources.nccl.ras.answering import Check, anybody
from collector.sources.nccl.ras.client import connect
from collector.sources.nccl.ras.monitor import MonitorStream
from pipeline.nccl.report import PeerEvent

log = logging.getLogger("tocsin.nccl")

CONNECT_S = 1.0
AGAIN_S = 60.0  # after a connection that failed or ended
MAX_BYTES = 1 << 20  # at one look: what a server sends beyond waits in its own buffers
_ASK = b"CLIENT PROTOCOL 2\nSET FORMAT json\nMONITOR lifecycle\n"


class Listening:
    """``open_to`` connects to an address within seconds (RasError)."""

    def __init__(self, open_to: Callable[[Address, float], socket.socket] = connect) -> None:
        self._open_to = open_to
        self._connection: socket.socket | None = None
        self._stream = MonitorStream()
        self._due_s = float("-inf")

    def look(self, address: Address, now_s: float, check: Check = anybody) -> list[PeerEvent]:
        """Events since the last look, of a server that ``check`` lets answer; none while there is
        no connection. ``now_s`` is monotonic.
        """
        if self._connection is None and now_s >= self._due_s:
            self._due_s = now_s + AGAIN_S
            self._open(address, check)
        return self._read() if self._connection is not None else []

    def close(self) -> None:
        """Hang up. Safe to call twice."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self, address: Address, check: Check) -> None:
        connection = None
        try:
            connection = self._open_to(address, CONNECT_S)
            check(connection, address, time.monotonic() + CONNECT_S)
        except RasError as error:
            log.info("no RAS events from %s:%d: %s", address.host, address.port, error)
            if connection is not None:
                connection.close()
            return
        self._connection, self._stream = connection, MonitorStream()
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            connection.sendall(_ASK)

    def _read(self) -> list[PeerEvent]:
        assert self._connection is not None  # noqa: S101 - the caller looked
        found: list[PeerEvent] = []
        taken = 0
        while taken < MAX_BYTES and select.select([self._connection], [], [], 0)[0]:
            try:
                piece = self._connection.recv(1 << 16)
            except OSError:
                piece = b""
            if not piece:
                self.close()
                break
            taken += len(piece)
            found += self._stream.feed(piece)
        return found
