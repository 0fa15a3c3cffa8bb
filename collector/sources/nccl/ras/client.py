"""Asks a RAS server for one report: every phase has its deadline, every reply its limit,
whatever the server does.

Protocol: src/ras/client_support.cc of NCCL. Only the JSON form is ever asked for: making the text
form has crashed jobs (policy.py).
"""

from __future__ import annotations

import ctypes
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from collector.node.helper import client
from collector.node.helper.protocol import Kind
from collector.sources.nccl.ras.address import Address, RasError
from collector.sources.nccl.ras.answering import Check, anybody

MAX_BYTES = 32 << 20  # 520 bytes per rank and communicator: 1,024 ranks in 60 communicators
# a collection takes at most 10 s: 5 and 5 more per leg (src/ras/ras_internal.h)
CONNECT_S, READ_S = 1.0, 12.0
# The thread of RAS in each process takes connections and commands at once, whatever the job does;
# one that does not for so long is of a process that is stopped.
GREET_S = 3.0
COLLECT_S = 5  # limit sent to the server: 0, without limit, makes the job leak memory
MAX_PREFACE = 4096  # bytes before the report

_ASK = f"CLIENT PROTOCOL 2\nTIMEOUT {COLLECT_S}\nSET FORMAT json\n".encode()
_STATUS = b"STATUS\n"
CLONE_NEWNET = 0x40000000  # sched.h


def ask(
    address: Address,
    *,
    connect_s: float = CONNECT_S,
    read_s: float = READ_S,
    max_bytes: int = MAX_BYTES,
    check: Check = anybody,
) -> bytes:
    """One JSON report as it came, of a server that ``check`` lets answer. RasError: refused,
    stopped, stranger, silent, cut, flood, no_json, garbage.
    """
    end = time.monotonic() + connect_s + read_s
    with connect(address, connect_s) as connection:
        check(connection, address, min(end, time.monotonic() + GREET_S))
        return converse(connection, end, max_bytes)


def converse(connection: socket.socket, end: float, max_bytes: int) -> bytes:
    """The report that a server sends over a connection until a monotonic time. RasError."""
    session = _Session(connection, min(end, time.monotonic() + GREET_S), max_bytes)
    # The report is requested only after the server has confirmed JSON: the text form crashes.
    session.send(_ASK)
    try:
        replies = [session.line() for _ in range(3)]
    except RasError as error:
        raise RasError("stopped" if error.cause == "silent" else error.cause, str(error)) from error
    if not re.fullmatch(r"SERVER PROTOCOL \d{1,9}", replies[0]):
        raise RasError("garbage", f"no RAS server: it answers {replies[0]!r:.80}")
    if replies[2].startswith("ERROR: Unknown command"):
        raise RasError("no_json", "the RAS server has no JSON (NCCL before 2.28.7)")
    if replies[1:] != ["OK", "OK"]:
        raise RasError("garbage", f"the RAS server answers {replies[1:]!r:.120}")
    session.end = end
    session.send(_STATUS)
    return session.rest()


def ask_any(
    addresses: Iterable[Address], check: Check = anybody, ask: Callable[..., bytes] = ask
) -> bytes:
    """The first report that any of these gives: for a stopped process its neighbours answer. One
    that takes the question and is silent then is waited for alone: others of its job wait too.

    At most as many tries as addresses; RasError of the last where none answers.
    """
    error = RasError("refused", "no RAS server listens")
    for address in addresses:
        try:
            return ask(address, check=check)
        except RasError as one:
            error = one
            if one.cause not in {"refused", "stopped", "stranger"}:
                break
    raise error


class _Session:
    """A connection with one deadline for all that is read, and a limit of bytes."""

    def __init__(self, connection: socket.socket, end: float, max_bytes: int) -> None:
        self._connection, self.end, self._most = connection, end, max_bytes
        self._kept = bytearray()

    def send(self, data: bytes) -> None:
        self._connection.settimeout(max(self.end - time.monotonic(), 0.001))
        try:
            self._connection.sendall(data)
        except OSError as error:
            raise RasError("cut", f"the RAS server closed the connection: {error}") from error

    def line(self) -> str:
        while (at := self._kept.find(b"\n")) < 0:
            if len(self._kept) > MAX_PREFACE:
                raise RasError("garbage", "no RAS server: it sent a line without end")
            if not self._more():
                raise RasError("cut", "the RAS server closed the connection before it answered")
        text = bytes(self._kept[:at]).decode(errors="replace").rstrip("\r")
        del self._kept[: at + 1]
        return text

    def rest(self) -> bytes:
        while self._more():
            if len(self._kept) > self._most:
                raise RasError("flood", f"the RAS server sent more than {self._most} bytes")
        return bytes(self._kept)

    def _more(self) -> bool:
        """Read on; False at the end."""
        left = self.end - time.monotonic()
        if left <= 0:
            raise RasError("silent", "the RAS server did not finish in time")
        self._connection.settimeout(left)
        try:
            piece = self._connection.recv(1 << 16)
        except TimeoutError as error:
            raise RasError("silent", "the RAS server did not answer in time") from error
        except OSError as error:
            raise RasError("cut", f"the RAS server closed the connection: {error}") from error
        self._kept += piece
        return bool(piece)


def connect(address: Address, timeout_s: float) -> socket.socket:
    """A connection to the server, made inside its network namespace.

    RasError (refused) where there is none in time.
    """
    try:
        if not address.namespace:
            return socket.create_connection((address.host, address.port), timeout_s)
        try:
            return _within(
                address.namespace,
                lambda: socket.create_connection((address.host, address.port), timeout_s),
            )
        except PermissionError:
            root = Path(address.namespace).parents[1] / "root"
            return socket.socket(fileno=client.descriptor(Kind.RAS, root, str(address.port)))
    except OSError as error:
        raise RasError("refused", f"{address.host}:{address.port}: {error}") from error


def _within(namespace: str, dial: Callable[[], socket.socket]) -> socket.socket:
    """Connect inside another network namespace: in a thread that enters it and ends there; the
    socket stays in it for good.

    It needs CAP_SYS_ADMIN; PermissionError without.
    """
    result: list[socket.socket | OSError] = []

    def enter() -> None:
        try:
            fd = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
            try:
                libc = ctypes.CDLL(None, use_errno=True)
                if libc.setns(fd, CLONE_NEWNET) != 0:
                    number = ctypes.get_errno()
                    raise OSError(number, os.strerror(number), str(namespace))
            finally:
                os.close(fd)
            result.append(dial())
        except OSError as error:
            result.append(error)

    thread = threading.Thread(target=enter, name="netns")
    thread.start()
    thread.join()
    (found,) = result
    if isinstance(found, OSError):
        raise found
    return found
