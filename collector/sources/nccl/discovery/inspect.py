"""The look at one process: GPUs, NCCL, job and environment, from files below its /proc/PID."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from collector.foreign_text import printable
from collector.node.helper import client
from collector.node.helper.protocol import Kind
from collector.sources.nccl.discovery import procfs
from collector.sources.nccl.discovery.environment import environment_of, rank_of
from collector.sources.nccl.discovery.found import Found, Glance, Seen
from collector.sources.nccl.discovery.identity import owner_of
from collector.sources.tenants.desk import Mark


def inspect(proc: Path, glances: Sequence[Glance], mark: Mark) -> Iterator[Seen]:
    """What each process is, in their order; ``mark`` is called before each."""
    minors = _minors(proc)
    for glance in glances:
        process = proc / str(glance.pid)
        mark(str(glance.pid), glance.tenant)
        try:
            found = _found(process, glance, minors)
        except PermissionError:
            yield Seen(glance.pid, "hidden")
        except (FileNotFoundError, ProcessLookupError):
            yield Seen(glance.pid, "none")  # it ended meanwhile
        except OSError:
            yield Seen(glance.pid, "unread")
        else:
            yield Seen(glance.pid, "found" if found else "none", found)


def _found(process: Path, glance: Glance, minors: Sequence[tuple[int, str]]) -> Found | None:
    maps = procfs.read(process / "maps")
    mapped = procfs.mapped(maps)
    if not mapped.holds_gpu:
        return None
    if glance.opened is None:
        raise PermissionError
    held = set(mapped.gpus).intersection(glance.opened)
    status = procfs.read(process / "status")
    environment = environment_of(procfs.environ(process, maps))
    cgroup = procfs.read(process / "cgroup").decode(errors="replace")
    owner = owner_of(environment, cgroup, procfs.user(status))
    still = procfs.stat(procfs.read(process / "stat"))
    if still is None or still.started != glance.started:
        raise ProcessLookupError  # what was read may be of two processes with one number
    return Found(
        glance.pid,
        procfs.inner_pid(status, glance.pid),
        owner.user,
        printable(glance.comm, 64),
        glance.started / procfs.TICKS_PER_SECOND,
        owner.name,
        rank_of(environment),
        tuple(uuid for minor, uuid in minors if minor in held),
        mapped.library,
        _namespace(process),
        glance.parent,
        environment,
        owner.group,
        owner.sure,
    )


def _minors(proc: Path) -> list[tuple[int, str]]:
    """Minor number and UUID of each GPU, as the kernel driver has them."""
    found = []
    for information in sorted(proc.glob("driver/nvidia/gpus/*/information")):
        try:
            pair = procfs.minors(procfs.read(information))
        except OSError:
            continue
        found += [pair] if pair else []
    return found


def _namespace(process: Path) -> int:
    try:
        return (process / "ns" / "net").stat().st_ino
    except PermissionError:
        with contextlib.suppress(OSError):
            return next(iter(client.numbers(Kind.NETWORK, process)), 0)
        return 0
    except OSError:
        return 0
