"""Limits, CPUs, shared memory and interfaces of a process, from files below its /proc/PID that
need no privilege (proc(5)).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from collector.facts.cpus import cpu_list
from collector.facts.model import Limits, ProcessFacts
from collector.sources.nccl.discovery import procfs
from collector.sources.nccl.discovery.mounts import mounts_in

SHM = "/dev/shm"  # noqa: S108 - looked up in a table of mounts, not opened
MAX_INTERFACES = 512
_LIMIT = re.compile(
    r"^Max (locked memory|open files|stack size) +(\d{1,20}|unlimited)", re.MULTILINE
)
_CPUS = re.compile(r"^Cpus_allowed_list:\s*(\S{1,4096})", re.MULTILINE)
_CAPABILITIES = re.compile(r"^CapEff:\s*([0-9a-f]{1,16})$", re.MULTILINE)
_IPC_LOCK = 14  # linux/capability.h
_SIZE = re.compile(r"(?:^|,)size=(\d{1,15})([kmg]?)(?:,|$)")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def process_facts(process: Path, *, foreign: bool = False) -> ProcessFacts:
    """Of the process whose /proc/PID is given; what cannot be read is unknown."""
    status = _text(process / "status")
    return ProcessFacts(
        limits_of(_text(process / "limits")),
        shm_bytes(_text(process / "mountinfo")),
        allowed_cpus(status),
        interfaces_of(_text(process / "net/dev")),
        foreign,
        may_pin(status, _text(process / "uid_map")),
    )


def limits_of(text: str) -> Limits:
    """The soft limits in a /proc/PID/limits.

    >>> limits_of(
    ...     "Max open files            1024                 4096                 files"
    ... ).nofile
    1024
    """
    found = {
        name: None if value == "unlimited" else int(value) for name, value in _LIMIT.findall(text)
    }
    if not found:
        return Limits()
    return Limits(
        known=True,
        memlock=found.get("locked memory"),
        nofile=found.get("open files"),
        stack=found.get("stack size", 0),
    )


def shm_bytes(mountinfo: str) -> int | None:
    """Size of /dev/shm in a /proc/PID/mountinfo; None where it has no limit of its own, for then it
    is half of the memory (tmpfs(5)), or is not mounted.

    >>> shm_bytes("9 1 0:5 / /dev/shm rw - tmpfs shm rw,size=65536k")
    67108864
    """
    sizes = [_SIZE.search(one.options) for one in mounts_in(mountinfo) if one.point == SHM]
    last = sizes[-1] if sizes else None
    return int(last[1]) * _UNITS[last[2]] if last else None


def allowed_cpus(status: str) -> frozenset[int]:
    """Where a process may run, by its /proc/PID/status; empty where it does not say."""
    match = _CPUS.search(status)
    return cpu_list(match[1]) if match else frozenset()


def may_pin(status: str, uid_map: str) -> bool:
    r"""Whether CAP_IPC_LOCK lifts the limit of locked memory, as in pods that use RDMA: it counts
    in the first user namespace only (ib_umem_get of drivers/infiniband/core/umem.c).

    >>> may_pin("CapEff:\t0000000000004000\n", "0 0 4294967295"), may_pin("CapEff:\t0\n", "")
    (True, False)
    """
    match, ids = _CAPABILITIES.search(status), uid_map.split()
    first = not ids or ids == ["0", "0", "4294967295"]
    return bool(match and first and int(match[1], 16) >> _IPC_LOCK & 1)


def interfaces_of(text: str) -> tuple[str, ...]:
    """Names in a /proc/PID/net/dev."""
    names: Iterable[str] = (
        line.partition(":")[0].strip() for line in text.splitlines()[2:] if ":" in line
    )
    return tuple(name for name, _ in zip(names, range(MAX_INTERFACES), strict=False) if name)


def _text(path: Path) -> str:
    try:
        return procfs.read(path).decode(errors="replace")
    except OSError:
        return ""
