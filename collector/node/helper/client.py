"""The agent's side: what the kernel denies the agent is asked of the helper, where there is one."""

from __future__ import annotations

import errno
import os
import socket
import time
from pathlib import Path
from typing import NamedTuple

from collector.node.helper import protocol
from collector.node.helper.protocol import MAX_DATA, REPLY, REQUEST, Kind

# of one question; a file system that does not answer costs the helper a thread, and the agent this
TIMEOUT_S = 5.0
AGAIN_S = 0.005
_CONTENT = {"maps": Kind.MAPS, "environ": Kind.ENVIRON}


class Answer(NamedTuple):
    """``fd`` belongs to the caller; -1 where none came."""

    data: bytes
    fd: int


def ask(kind: Kind, pid: int = 0, text: str = "") -> Answer:
    """The helper's answer. OSError as the helper had it; PermissionError where there is none."""
    request = REQUEST.pack(kind, pid) + text.encode(errors="surrogateescape")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(TIMEOUT_S)
        try:
            _connect(connection)
            connection.send(request)
            data, fds, _, _ = socket.recv_fds(connection, REPLY.size + MAX_DATA, 1)
        except TimeoutError as error:
            raise OSError(errno.ETIMEDOUT, "the helper does not answer") from error
        except OSError as error:
            raise PermissionError(errno.EACCES, "not permitted, and there is no helper") from error
    fd = fds[0] if fds else -1
    number = REPLY.unpack_from(data)[0] if len(data) >= REPLY.size else errno.EACCES
    if number:
        if fd >= 0:
            os.close(fd)
        raise OSError(number, f"helper: {os.strerror(number)}")
    return Answer(data[REPLY.size :], fd)


def _connect(connection: socket.socket) -> None:
    """Wait for a place in its queue, which others may fill: connect(2) itself does not, with a
    timeout (EAGAIN).
    """
    end_s = time.monotonic() + TIMEOUT_S
    while True:
        try:
            connection.connect(str(protocol.SOCKET))
        except BlockingIOError:
            if time.monotonic() > end_s:
                raise
            time.sleep(AGAIN_S)
        else:
            return


def available() -> bool:
    """Whether there is a helper to ask."""
    return protocol.SOCKET.exists()


def content(path: Path) -> bytes:
    """What may be known of a file below /proc/PID. PermissionError where that is nothing."""
    kind = _CONTENT.get(path.name)
    if kind is None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    return ask(kind, _pid(path.parent)).data


def numbers(kind: Kind, process: Path, text: str = "") -> frozenset[int]:
    """The numbers that the helper answers of a process, by its /proc/PID."""
    return frozenset(int(word) for word in ask(kind, _pid(process), text).data.split())


def descriptor(kind: Kind, root: Path, text: str = "") -> int:
    """An open file or socket of a process, by its /proc/PID/root."""
    answer = ask(kind, _pid(root.parent), text)
    if answer.fd < 0:
        raise OSError(errno.EPROTO, "the helper sent no descriptor")
    return answer.fd


def _pid(process: Path) -> int:
    """The number of a /proc/PID, under whatever path /proc is mounted."""
    if process.parent.name != "proc" or not process.name.isdecimal():
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(process))
    return int(process.name)
