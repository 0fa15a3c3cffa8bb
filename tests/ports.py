"""Ports for servers that can't choose their own.

The kernel gives a port of its ephemeral range to whatever connects next, so one that was free a
moment ago may be taken when the server starts. These lie below that range, and each test process
has its own part of them.
"""

from __future__ import annotations

import itertools
import os
import socket

# Linux gives 32768 to 60999 to clients (Documentation/networking/ip-sysctl, ip_local_port_range);
# well-known servers, those of other tests among them, listen below 20000.
FIRST, END = 20_000, 32_000
PARTS = 16
SIZE = (END - FIRST) // PARTS

_calls = itertools.count(os.getpid())  # two sessions at once seldom begin at the same port


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on and that no other test process chooses."""
    return [free_port() for _ in range(count)]


def free_port() -> int:
    """One of them; the next call gives another."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = FIRST + worker % PARTS * SIZE
    for _ in range(SIZE):
        if _is_free(port := first + next(_calls) % SIZE):
            return port
    raise AssertionError(f"no port of {first} to {first + SIZE - 1} is free")


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
