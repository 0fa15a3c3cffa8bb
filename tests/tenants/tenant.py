"""A process of a tenant: gives up root, maps and opens what it is given, answers as a RAS server.

Started as a script of its own by tests/tenants/node.py, with one JSON argument; only the standard
library. It prints ``ready`` and lives until its standard input ends.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import mmap
import os
import socket
import struct
import sys
import threading
from pathlib import Path
from typing import Any

PR_SET_NAME = 15


def serve(place: dict[str, Any]) -> None:
    """Answer RAS queries on a loopback port with the bytes of a file, as NCCL's protocol has it."""
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind(("127.0.0.1", place["port"]))
    server.listen(16)

    def answer() -> None:
        while True:
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as lines:
                for line in lines:
                    if line.startswith(b"CLIENT PROTOCOL"):
                        connection.sendall(b"SERVER PROTOCOL 2\n")
                    elif line == b"STATUS\n":
                        connection.sendall(Path(place["reply"]).read_bytes())
                        break
                    else:
                        connection.sendall(b"OK\n")

    threading.Thread(target=answer, daemon=True).start()


def cover_environment(path: str) -> None:
    """Map a file over one page within the first variable, which has several pages (proc(5), stat,
    field 50). Whatever else is at the top of the stack, this process and its libraries use.
    """
    fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    start = (int(fields[47]) & -4096) + 4096
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    with Path(path).open("rb") as file:
        flags = mmap.MAP_PRIVATE | 0x10  # MAP_FIXED
        place, size = ctypes.c_void_p(start), ctypes.c_size_t(4096)
        libc.mmap(place, size, mmap.PROT_READ, flags, file.fileno(), 0)


def main() -> None:
    """Become the tenant, and stay until the parent hangs up."""
    asked = json.loads(sys.argv[1])
    if asked.get("namespace"):
        ctypes.CDLL(None).unshare(0x40000000)  # CLONE_NEWNET of sched.h
        with socket.socket() as any_socket:  # SIOCSIFFLAGS, IFF_UP: netdevice(7)
            fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH14x", b"lo", 1))
    os.setgroups([])
    os.setresgid(asked["user"], asked["user"], asked["user"])
    os.setresuid(asked["user"], asked["user"], asked["user"])
    if name := asked.get("name"):
        ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode(), 0, 0, 0)
    held: list[object] = []
    for path in asked.get("map", ()):
        fd = os.open(path, os.O_RDONLY)
        held.append(mmap.mmap(fd, 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ))
        held.append(os.fdopen(fd, "rb", closefd=False))
    for path, times in asked.get("often", {}).items():
        with Path(path).open("rb") as file:
            for _ in range(times):  # Python's own mappings each keep a descriptor
                how = mmap.PROT_READ, mmap.MAP_PRIVATE, file.fileno(), 0
                ctypes.CDLL(None).mmap(None, ctypes.c_size_t(4096), *how)
    if path := asked.get("over_environment"):
        cover_environment(path)
    held += [os.open(path, os.O_PATH) for path in asked.get("name_only", ())]
    if place := asked.get("ras"):
        serve(place)
    if path := asked.get("exec_over"):
        os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    if path:
        os.execv(sys.executable, [sys.executable, "-c", "while True: pass"])  # noqa: S606 - itself
    sys.stdin.read()


if __name__ == "__main__":
    main()
