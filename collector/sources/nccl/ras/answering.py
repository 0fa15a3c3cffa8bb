"""Which process answers a connection: pods share user ids, and all with the same id may listen
on the same port (SO_REUSEPORT, socket(7)), and answer in another's name.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from collector.sources.nccl.discovery.sockets import inode_of, sockets_of
from collector.sources.nccl.ras.address import Address, RasError

Check = Callable[[socket.socket, Address, float], None]
"""Called with a new connection and a monotonic deadline, before anything is sent. RasError."""

FIRST_PAUSE_S, MAX_PAUSE_S = 0.005, 0.2


def anybody(connection: socket.socket, address: Address, end: float) -> None:
    """Of a saved or simulated tree, whose processes have no connections."""


class Answering:
    """Finds which of some processes has accepted a connection: ``pid``, 0 before that."""

    def __init__(self, proc: Path, pids: Sequence[int]) -> None:
        self._proc, self._pids, self.pid = proc, pids, 0

    def __call__(self, connection: socket.socket, address: Address, end: float) -> None:
        """RasError: stopped, where nobody accepts in time; stranger, where none of them has."""
        inode = _accepted(connection, address, end)
        for pid in self._pids:
            with contextlib.suppress(OSError):
                if inode in sockets_of(self._proc / str(pid)):
                    self.pid = pid
                    return
        where = f"{address.host}:{address.port}"
        raise RasError("stranger", f"a process of another job answers at {where}")


def _accepted(connection: socket.socket, address: Address, end: float) -> int:
    """The inode of the other end; it has none before accept(2)."""
    process = Path(address.namespace).parents[1] if address.namespace else Path("/proc/self")
    ends = (_end(connection.getpeername()), _end(connection.getsockname()))
    pause_s = FIRST_PAUSE_S
    while not (inode := inode_of(process / "net", *ends)):
        if time.monotonic() + pause_s > end:
            raise RasError("stopped", "the RAS server does not accept the connection")
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, MAX_PAUSE_S)
    return inode


def _end(name: tuple[object, ...]) -> tuple[str, int]:
    """Address and port as ``discovery.sockets`` has them."""
    return str(ipaddress.ip_address(str(name[0]))), int(str(name[1]))
