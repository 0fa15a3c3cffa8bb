"""Answers the agent's questions: one connection, one question, one thread. Others' connections are
closed at once: they take no thread, and no place of the agent's.

A path in a tenant's mounts may never answer, nor may the memory of a process: of each user, and of
each pod, only two questions are open at a time, so that others always have a thread.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from collector.helper.grants import GRANTS, Grant
from collector.helper.process import Process, opened
from collector.node.helper.protocol import MAX_DATA, MAX_TEXT, REPLY, REQUEST, Kind
from collector.node.privileges import capabilities

log = logging.getLogger("tocsin.helper")

MAX_QUESTIONS, MAX_OF_USER = 32, 2  # at a time; the agent and one child of it
PATIENCE_S = 5.0  # for a client that connects and asks nothing
WITHOUT_PROCESS = frozenset({Kind.KUBELET})


class Helper:
    """Listens at ``path`` for one user, and for root."""

    def __init__(self, path: Path, user: int) -> None:
        self._path, self._user = path, user
        self._lock = threading.Lock()
        self._questions = 0
        self._open: Counter[str] = Counter()  # questions, by user or pod asked about
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.bind(str(path))
        path.chmod(0o666)  # it cannot give the file to the agent's user: each client is checked
        self._socket.listen(64)

    def serve(self) -> None:
        """Answer until closed."""
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            if _user_of(connection) not in (0, self._user):
                connection.close()
                continue
            with self._lock:
                self._questions += 1
                full = self._questions > MAX_QUESTIONS
            if full:
                self._done(connection)
            else:
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def close(self) -> None:
        """Stop answering."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._path.unlink(missing_ok=True)

    def _done(self, connection: socket.socket) -> None:
        connection.close()
        with self._lock:
            self._questions -= 1

    def _answer(self, connection: socket.socket) -> None:
        grant, number = Grant(), 0
        try:
            connection.settimeout(PATIENCE_S)
            try:
                grant = self._grant(connection)
            except OSError as error:
                number = error.errno or errno.EACCES
            except ValueError:
                number = errno.EINVAL
            with contextlib.suppress(OSError):  # it no longer waits
                fds = [grant.fd] if grant.fd >= 0 else []
                socket.send_fds(connection, [REPLY.pack(number) + grant.data[:MAX_DATA]], fds)
        finally:
            if grant.fd >= 0:
                os.close(grant.fd)
            self._done(connection)

    def _grant(self, connection: socket.socket) -> Grant:
        request = connection.recv(REQUEST.size + MAX_TEXT)
        if len(request) < REQUEST.size:
            raise ValueError("no question")
        number, pid = REQUEST.unpack_from(request)
        kind, text = Kind(number), request[REQUEST.size :].decode(errors="surrogateescape")
        if "\0" in text:
            raise ValueError("a path with a null")
        if kind is Kind.HELLO:
            return Grant(" ".join(sorted(capabilities())).encode())
        if kind in WITHOUT_PROCESS:
            return GRANTS[kind](Process(-1), text)
        with opened(pid) as process, self._turn(process.tenant()):
            return GRANTS[kind](process, text)

    @contextlib.contextmanager
    def _turn(self, tenant: str) -> Iterator[None]:
        """One of the few places of a user or pod. OSError where none is free."""
        with self._lock:
            if self._open[tenant] >= MAX_OF_USER:
                raise OSError(errno.EBUSY, "other questions about its tenant's processes are open")
            self._open[tenant] += 1
        try:
            yield
        finally:
            with self._lock:
                self._open[tenant] -= 1
                if not self._open[tenant]:
                    del self._open[tenant]


def _user_of(connection: socket.socket) -> int:
    """Who connected, as the kernel has it (unix(7), SO_PEERCRED)."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int(struct.unpack("3i", credentials)[1])
