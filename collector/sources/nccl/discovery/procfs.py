"""The files below /proc/PID that discovery reads, each parsed by a function of its text.

Formats: proc(5).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from collector.node.helper import client

MAX_BYTES = 16 << 20  # of one file: the maps of a Python process with PyTorch take 0.5 MB
TICKS_PER_SECOND = 100  # USER_HZ, the same on all architectures that have NVIDIA drivers

_GPU = re.compile(rb" /dev/nvidia(\d{1,3})$", re.MULTILINE)
_ANY_GPU = re.compile(rb" /dev/nvidia(?:\d{1,3}|ctl|-uvm)$", re.MULTILINE)
_ROW = re.compile(
    rb"^([0-9a-f]{1,16})-([0-9a-f]{1,16}) \S{1,8} \S{1,16} \S{1,32} ([0-9]{1,20})", re.MULTILINE
)
_ENV_START, _ENV_END = 47, 48  # proc(5): fields 50 and 51 of stat, counted behind the name
_INODE = re.compile(rb"[0-9]{1,20}")
# libtorch_cuda has NCCL linked in where PyTorch was built that way.
_SPEAKS = re.compile(rb"libnccl\.so[^/]{0,40}|libtorch_cuda\.so")


@dataclass(frozen=True, slots=True)
class Library:
    """A mapped library that implements NCCL: path in the process's own root, and its identity on
    disk (device and inode).
    """

    path: str
    device: str
    inode: int


@dataclass(frozen=True, slots=True)
class Mapped:
    """What the maps of a process show. ``gpus`` are minor numbers of GPUs it has mapped."""

    holds_gpu: bool
    gpus: tuple[int, ...] = ()
    library: Library | None = None


def read(path: Path) -> bytes:
    """The file, at most ``MAX_BYTES``; the part of it that the helper gives where the kernel denies
    it.

    OSError as it comes: PermissionError where the process may not be inspected.
    """
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES)
    except PermissionError:
        return client.content(path)


def environ(process: Path, maps: bytes | None = None) -> bytes:
    """The environment of a process, ``process`` its /proc/PID; empty where it may be in a file.

    A process may map a file over its environment: who reads that then waits for the file's server,
    which may be the process itself and never answer (FUSE). OSError as for ``read``.
    """
    fields = read(process / "stat").rpartition(b")")[2].split()
    if len(fields) > _ENV_END and fields[_ENV_START] != b"0":
        start, end = int(fields[_ENV_START]), int(fields[_ENV_END])
        if not in_memory(read(process / "maps") if maps is None else maps, start, end):
            return b""
    return read(process / "environ")


def in_memory(maps: bytes, start: int, end: int) -> bool:
    r"""Whether no file is mapped between two addresses. Of maps that are cut that is not known.

    >>> in_memory(b"1000-2000 rw-p 0 00:00 0 [stack]\n2000-3000 r--p 0 8:1 7 /x\n", 0x1800, 0x2000)
    True
    """
    if len(maps) >= MAX_BYTES:
        return False
    for row in _ROW.finditer(maps):  # no list of rows: the helper has little memory
        if int(row[1], 16) < end and int(row[2], 16) > start and row[3] != b"0":
            return False
    return True


def mapped(maps: bytes) -> Mapped:
    """GPUs and NCCL in a /proc/PID/maps."""
    if not _ANY_GPU.search(maps):
        return Mapped(holds_gpu=False)
    gpus = tuple(sorted({int(n) for n in _GPU.findall(maps)}))
    rows = (
        line.split(None, 5)
        for line in maps.split(b"\n")  # a name may hold any other end of a line
        if b"libnccl.so" in line or b"libtorch_cuda" in line
    )
    libraries = {
        Library(path.decode(errors="replace"), device.decode(errors="replace"), int(inode))
        for _, _, _, device, inode, path in (row for row in rows if len(row) == 6)
        if _INODE.fullmatch(inode) and _SPEAKS.fullmatch(path.rpartition(b"/")[2])
    }
    # NCCL's own library counts where both are there.
    chosen = min(libraries, key=lambda x: ("libnccl" not in x.path, x.path), default=None)
    return Mapped(holds_gpu=True, gpus=gpus, library=chosen)


@dataclass(frozen=True, slots=True)
class Stat:
    """``started`` is in clock ticks since boot: with the pid it names a process forever."""

    comm: str
    parent: int
    started: int


def stat(text: bytes) -> Stat | None:
    """/proc/PID/stat; None where it is none. A comm may hold blanks and brackets."""
    comm, bracket, rest = text.partition(b"(")[2].rpartition(b")")
    fields = rest.split()
    if not bracket or len(fields) < 20:
        return None
    try:
        return Stat(comm.decode(errors="replace"), int(fields[1]), int(fields[19]))
    except ValueError:
        return None


def inner_pid(status: bytes, pid: int) -> int:
    r"""The pid as the process itself sees it, which is what RAS reports: the last of
    NSpid in /proc/PID/status.

    >>> inner_pid(b"Name: x\nNSpid: 812 7\n", 812), inner_pid(b"", 5)
    (7, 5)
    """
    match = re.search(rb"^NSpid:((?:\s+\d{1,10}){1,32})\s*$", status, re.MULTILINE)
    return int(match[1].split()[-1]) if match else pid


def user(status: bytes) -> int:
    """Effective user id in /proc/PID/status, -1 where it does not say."""
    match = re.search(rb"^Uid:\s+\d+\s+(\d{1,10})", status, re.MULTILINE)
    return int(match[1]) if match else -1


def minors(text: bytes) -> tuple[int, str] | None:
    """Minor number and UUID in a /proc/driver/nvidia/gpus/ADDRESS/information."""
    minor = re.search(rb"^Device Minor:\s*(\d{1,3})", text, re.MULTILINE)
    uuid = re.search(rb"^GPU UUID:\s*(GPU-[0-9a-f-]{36})", text, re.MULTILINE)
    return (int(minor[1]), uuid[1].decode()) if minor and uuid else None
