"""What the helper answers, one function per kind of question.

A file is opened only where the environment or the mappings of the process itself name it, below
that process's root, without following a link, and if it is its user's; a library may be anybody's
that everybody may read.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from collector.helper.process import Process
from collector.node.helper.protocol import MAX_DATA, Kind
from collector.sources.nccl.discovery import procfs
from collector.sources.nccl.discovery.devices import opened_minors
from collector.sources.nccl.discovery.found import Found
from collector.sources.nccl.discovery.relative import absolute
from collector.sources.nccl.discovery.sockets import listeners, sockets_of
from collector.sources.nccl.flight_recorder.files import dump_paths
from collector.sources.nccl.inspector.watch import folder_of
from collector.sources.nccl.ras.address import Address
from collector.sources.nccl.ras.client import CONNECT_S, connect
from collector.sources.untrusted import (
    folder_descriptor,
    open_fifo,
    open_regular,
    socket_path,
)

MAX_NUMBERS = MAX_DATA // 21  # decimal digits of 64 bits, and a blank
WORKER_S = 2.0  # to connect to a worker server
KUBELET = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
_PROMETHEUS = re.compile(r"nccl_inspector_metrics_[\w-]{1,64}\.prom")
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound


class Grant(NamedTuple):
    """What is sent back; ``fd`` is closed afterwards."""

    data: bytes = b""
    fd: int = -1


def maps(process: Process, _text: str) -> Grant:
    """Which NVIDIA device files and which NCCL it has mapped."""
    return Grant(process.maps())


def environ(process: Process, _text: str) -> Grant:
    """The variables that the agent uses."""
    pairs = process.environment().items()
    return Grant("\0".join(f"{name}={value}" for name, value in pairs).encode())


def devices(process: Process, text: str) -> Grant:
    """Minor numbers of open device files of a major."""
    return _numbers(opened_minors(process.folder, int(text)))


def sockets(process: Process, _text: str) -> Grant:
    """Inodes of open sockets."""
    return _numbers(sockets_of(process.folder))


def network(process: Process, _text: str) -> Grant:
    """Inode of its network namespace."""
    return _numbers([(process.folder / "ns" / "net").stat().st_ino])


def inspector(process: Process, _text: str) -> Grant:
    """The folder of its Inspector logs: its path, and itself to list."""
    found = _holder(process)
    folder = _inspector(process, found)
    fd = folder_descriptor(folder, root=process.root)
    if found.user not in (0, os.fstat(fd).st_uid) and not os.fstat(fd).st_mode & 0o004:
        os.close(fd)
        raise PermissionError(errno.EACCES, "somebody else's folder")
    return Grant(folder.encode(errors="surrogateescape"), fd)


def file(process: Process, text: str) -> Grant:
    """A dump or an Inspector file of the process, or a library that it has mapped."""
    found = _holder(process)
    library = procfs.mapped(process.maps()).library
    if library is not None and text == library.path:
        return Grant(fd=_public(open_regular(text, root=process.root), found.user))
    dumps = [absolute(path, process.folder) for path in dump_paths(found)]
    if text not in dumps and not _of_inspector(process, found, text):
        raise PermissionError(errno.EACCES, "the process names no such file")
    return Grant(fd=open_regular(text, root=process.root, owner=found.user))


def fifo(process: Process, text: str) -> Grant:
    """The FIFO by which Flight Recorder takes requests for a dump."""
    found = _holder(process)
    prefix = found.environment.get("TORCH_NCCL_DEBUG_INFO_PIPE_FILE")
    if not prefix or text != f"{absolute(prefix, process.folder)}{found.rank}.pipe":
        raise PermissionError(errno.EACCES, "the process names no such file")
    return Grant(fd=open_fifo(text, root=process.root, owner=found.user))


def worker(process: Process, _text: str) -> Grant:
    """A connection to PyTorch's worker server."""
    found = _holder(process)
    fd, reachable = socket_path(
        found.environment.get("TORCH_WORKER_SERVER_SOCKET", ""),
        root=process.root,
        owner=found.user,
    )
    try:
        return Grant(fd=_unix(reachable, WORKER_S))
    finally:
        os.close(fd)


def ras(process: Process, text: str) -> Grant:
    """A connection to a port on which the process itself listens, in its network namespace."""
    _holder(process)
    own = sockets_of(process.folder)
    for listener in listeners(process.folder / "net"):
        if listener.port == int(text) and listener.inode in own:
            host = _ANY.get(listener.host, listener.host)
            address = Address(host, listener.port, str(process.folder / "ns" / "net"))
            return Grant(fd=connect(address, CONNECT_S).detach())
    raise ConnectionRefusedError(errno.ECONNREFUSED, "the process listens on no such port")


def kubelet(_process: Process, _text: str) -> Grant:
    """A connection to the kubelet's pod-resources socket, which answers root alone."""
    return Grant(fd=_unix(str(KUBELET), WORKER_S))


def folder(process: Process, _text: str) -> Grant:
    """Where it runs: what it names relative to that is looked for there."""
    _holder(process)
    return Grant(os.fsencode((process.folder / "cwd").readlink()))


GRANTS: Mapping[Kind, Callable[[Process, str], Grant]] = {
    Kind.MAPS: maps,
    Kind.ENVIRON: environ,
    Kind.DEVICES: devices,
    Kind.SOCKETS: sockets,
    Kind.NETWORK: network,
    Kind.INSPECTOR: inspector,
    Kind.FILE: file,
    Kind.FIFO: fifo,
    Kind.WORKER: worker,
    Kind.RAS: ras,
    Kind.KUBELET: kubelet,
    Kind.FOLDER: folder,
}


def _holder(process: Process) -> Found:
    if not process.holds_gpu():
        raise PermissionError(errno.EACCES, "the process has no GPU")
    return process.found()


def _public(fd: int, user: int) -> int:
    """The descriptor of a file that its user may read: in a namespace of one's own anybody can
    mount a secret of another user over a library that is mapped.
    """
    status = os.fstat(fd)
    if status.st_uid == user or status.st_mode & stat.S_IROTH:
        return fd
    os.close(fd)
    raise PermissionError(errno.EACCES, "somebody else's file")


def _inspector(process: Process, found: Found) -> str:
    if found.environment.get("NCCL_INSPECTOR_ENABLE") != "1":
        raise PermissionError(errno.EACCES, "the Inspector is off")
    return folder_of(found.environment, process.folder)


def _of_inspector(process: Process, found: Found, text: str) -> bool:
    if found.environment.get("NCCL_INSPECTOR_ENABLE") != "1":
        return False
    path = PurePosixPath(text)
    return str(path.parent) == str(PurePosixPath(_inspector(process, found))) and (
        path.name.endswith(f"-pid{found.inner_pid}.log")
        or _PROMETHEUS.fullmatch(path.name) is not None
    )


def _unix(path: str, timeout_s: float) -> int:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout_s)
        connection.connect(path)
        connection.settimeout(None)
        return connection.detach()


def _numbers(found: Iterable[int]) -> Grant:
    return Grant(" ".join(map(str, sorted(found)[:MAX_NUMBERS])).encode())
