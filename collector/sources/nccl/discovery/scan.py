"""The scan over /proc: every process is looked at when it is new, and ever more
rarely while it holds no GPU.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from collector.sources.nccl.discovery import procfs
from collector.sources.nccl.discovery.devices import every_minor, is_saved, opened_minors
from collector.sources.nccl.discovery.environment import environment_of, rank_of
from collector.sources.nccl.discovery.identity import Owner, owner_of
from collector.sources.nccl.sanitize import printable
from collector.sources.nccl.shares import fair

MAX_PROCESSES = 100_000
# processes of one node that hold GPUs: 16 GPUs in 7 instances, some of them shared
MAX_FOUND = 1024
# between two looks at one process: an interpreter loads CUDA seconds after its start
FIRST_PAUSE_S, MAX_PAUSE_S = 15.0, 300.0
KTHREADD = 2  # the parent of all kernel threads


@dataclass(frozen=True, slots=True)
class Found:
    """A process that holds a GPU.

    ``pid`` and ``parent`` are the host's, ``inner_pid`` what the process calls itself and RAS
    reports. ``started_s`` is seconds since boot. ``uuids`` are the GPUs it has mapped. ``library``
    is where it has NCCL from, None where it has none (yet). ``network`` tells network namespaces
    apart, 0 where that is not known. ``group`` and ``sure`` as in ``identity.Owner``.
    """

    pid: int
    inner_pid: int
    user: int
    comm: str
    started_s: float
    job: str
    rank: int
    uuids: tuple[str, ...] = ()
    library: procfs.Library | None = None
    network: int = 0
    parent: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    group: str = ""
    sure: bool = False

    @property
    def owner(self) -> Owner:
        """The job that it belongs to."""
        return Owner(self.group, self.user, self.job or f"user{self.user}", self.sure)


@dataclass(frozen=True, slots=True)
class Scan:
    """One look over the node.

    ``hidden``: processes that could not be inspected, among them perhaps some that hold GPUs.
    ``cut``: processes beyond the share of their tenant.
    """

    processes: tuple[Found, ...]
    hidden: int
    cut: tuple[Found, ...] = ()


@dataclass(slots=True)
class _Known:
    """What is remembered of a process between looks."""

    started: int
    due_s: float = 0.0
    pause_s: float = FIRST_PAUSE_S
    hidden: bool = False
    found: Found | None = None


class Scanner:
    """Looks over ``proc`` when asked.

    A process that was looked at costs one small file, until it is due again. ``opened`` gives the
    minor numbers of GPUs whose device files a process has open.
    """

    def __init__(self, proc: Path, opened: Callable[[Path], Collection[int]] | None = None) -> None:
        self._proc = proc
        self._opened = opened or (every_minor if is_saved(proc) else opened_minors)
        self._known: dict[int, _Known] = {}

    def scan(self, now_s: float) -> Scan:
        """The processes that hold GPUs now; ``now_s`` is monotonic.

        OSError where /proc itself cannot be read.
        """
        pids = set(self._pids())
        for pid in self._known.keys() - pids:
            del self._known[pid]
        for pid in pids:
            self._look(pid, now_s)
        found = _ranks([known.found for _, known in sorted(self._known.items()) if known.found])
        kept, cut = fair(found, lambda process: process.owner.tenant, MAX_FOUND)
        return Scan(tuple(kept), sum(known.hidden for known in self._known.values()), tuple(cut))

    def _pids(self) -> Iterator[int]:
        with os.scandir(self._proc) as entries:
            for _, entry in zip(range(MAX_PROCESSES), entries, strict=False):
                if entry.name.isascii() and entry.name.isdecimal():
                    yield int(entry.name)

    def _look(self, pid: int, now_s: float) -> None:
        process = self._proc / str(pid)
        try:
            stat = procfs.stat(procfs.read(process / "stat"))
        except OSError:
            stat = None
        if stat is None:
            self._known.pop(pid, None)
            return
        known = self._known.get(pid)
        if known is None or known.started != stat.started:
            known = self._known[pid] = _Known(stat.started)
        if now_s < known.due_s or KTHREADD in (pid, stat.parent):
            return
        try:
            known.found, known.hidden = self._inspect(pid, process, stat, known.found), False
        except PermissionError:
            known.found, known.hidden = None, True
        except OSError:
            known.found = None  # it ended meanwhile
        if known.found and known.found.library:
            known.pause_s = MAX_PAUSE_S
        known.due_s = now_s + known.pause_s
        known.pause_s = min(2 * known.pause_s, MAX_PAUSE_S)

    def _inspect(
        self, pid: int, process: Path, stat: procfs.Stat, before: Found | None
    ) -> Found | None:
        mapped = procfs.mapped(procfs.read(process / "maps"))
        opened = self._opened(process) if mapped.holds_gpu else ()
        if not opened:
            return None
        held = set(mapped.gpus).intersection(opened)
        uuids = tuple(uuid for minor, uuid in self._minors() if minor in held)
        if before is not None:
            return replace(before, uuids=uuids, library=mapped.library or before.library)
        status, environment = (
            procfs.read(process / "status"),
            environment_of(procfs.read(process / "environ")),
        )
        cgroup = procfs.read(process / "cgroup").decode(errors="replace")
        owner = owner_of(environment, cgroup, procfs.user(status))
        return Found(
            pid,
            procfs.inner_pid(status, pid),
            owner.user,
            printable(stat.comm, 64),
            stat.started / procfs.TICKS_PER_SECOND,
            owner.name,
            rank_of(environment),
            uuids,
            mapped.library,
            _namespace(process / "ns" / "net"),
            stat.parent,
            environment,
            owner.group,
            owner.sure,
        )

    def _minors(self) -> list[tuple[int, str]]:
        """Minor number and UUID of each GPU, as the kernel driver has them."""
        found = []
        for information in sorted(self._proc.glob("driver/nvidia/gpus/*/information")):
            try:
                pair = procfs.minors(procfs.read(information))
            except OSError:
                continue
            found += [pair] if pair else []
        return found


def _ranks(found: list[Found]) -> list[Found]:
    """Without the children that a rank forked, such as workers that load its data: they inherit its
    mappings and its environment.
    """
    ranks = {p.pid: p.rank for p in found}
    return [p for p in found if p.rank < 0 or ranks.get(p.parent) != p.rank]


def _namespace(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0
