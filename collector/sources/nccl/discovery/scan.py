"""The scan over /proc: every process is looked at when it is new, and ever more
rarely while it holds no GPU.
"""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from collector.sources.nccl.discovery import procfs
from collector.sources.nccl.discovery.devices import every_minor, is_saved, opened_minors
from collector.sources.nccl.discovery.found import Found, Glance, Seen
from collector.sources.nccl.discovery.inspect import inspect
from collector.sources.tenants.shares import fair, in_turns

MAX_PROCESSES = 100_000
# processes of one node that hold GPUs: 16 GPUs in 7 instances, some of them shared
MAX_FOUND = 1024
# between two looks at one process: an interpreter loads CUDA seconds after its start
FIRST_PAUSE_S, MAX_PAUSE_S = 15.0, 300.0
KTHREADD = 2  # the parent of all kernel threads
# CPU seconds of one scan, for lists of open files: 20,000 of them take 0.09 s. The others wait.
TENANT_S, NODE_S = 0.5, 3.0
# Seconds of one scan by the wall: what the helper lists for the agent costs the agent no CPU time.
# It has a fifth of a core, and 65,536 open files take it 1.5 s.
TENANT_WALL_S, NODE_WALL_S = 5.0, 10.0


class Looks(Protocol):
    """How processes are looked at: what may wait for them is asked in a child."""

    def stats(self, rows: Sequence[tuple[int, str]]) -> Mapping[int, procfs.Stat | None]:
        """Of each process, given with its user, the stat, None where it has ended; without those
        that are not looked at now.
        """
        ...

    def seen(self, glances: Sequence[Glance]) -> Sequence[Seen]:
        """What processes are; without those that are to be looked at again."""
        ...


class OwnLooks:
    """In this process: for commands, saved trees, and tests."""

    def __init__(self, proc: Path) -> None:
        self._proc = proc

    def stats(self, rows: Sequence[tuple[int, str]]) -> dict[int, procfs.Stat | None]:
        """See Looks."""
        return {pid: self._stat(pid) for pid, _ in rows}

    def seen(self, glances: Sequence[Glance]) -> tuple[Seen, ...]:
        """See Looks."""
        return tuple(inspect(self._proc, glances, _nobody))

    def _stat(self, pid: int) -> procfs.Stat | None:
        try:
            return procfs.stat(procfs.read(self._proc / str(pid) / "stat"))
        except OSError:
            return None


@dataclass(frozen=True, slots=True)
class Scan:
    """One look over the node.

    ``hidden``: processes that could not be inspected, among them perhaps some that hold GPUs.
    ``cut``: processes beyond the share of their tenant. ``late``: how many of each tenant wait for
    the next scan, because its others took its time.
    """

    processes: tuple[Found, ...]
    hidden: int
    cut: tuple[Found, ...] = ()
    late: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Known:
    """What is remembered of a process between looks."""

    started: int
    due_s: float = 0.0
    pause_s: float = FIRST_PAUSE_S
    hidden: bool = False
    found: Found | None = None


@dataclass(frozen=True, slots=True)
class _Due:
    """A process that is to be looked at, and its user."""

    pid: int
    stat: procfs.Stat
    tenant: str


class _Spent:
    """What the processes of each tenant took of one scan: seconds of CPU, and by the wall."""

    def __init__(self, clock_s: Callable[[], float], wall_s: Callable[[], float]) -> None:
        self._clock_s, self._wall_s = clock_s, wall_s
        self._cpu: defaultdict[str, float] = defaultdict(float)
        self._wall: defaultdict[str, float] = defaultdict(float)

    def all_of(self, tenant: str) -> bool:
        """Whether a tenant, or all together, have had their time."""
        return (
            self._cpu[tenant] >= TENANT_S
            or self._wall[tenant] >= TENANT_WALL_S
            or sum(self._cpu.values()) >= NODE_S
            or sum(self._wall.values()) >= NODE_WALL_S
        )

    @contextmanager
    def by(self, tenant: str) -> Iterator[None]:
        """While a process of a tenant is looked at."""
        cpu_s, wall_s = self._clock_s(), self._wall_s()
        yield
        self._cpu[tenant] += self._clock_s() - cpu_s
        self._wall[tenant] += self._wall_s() - wall_s


class Scanner:
    """Looks over ``proc`` when asked.

    A process that was looked at costs one small file, until it is due again. ``opened`` gives the
    minor numbers of GPUs whose device files a process has open; ``looks`` looks at processes, in a
    child where tenants may be hostile. What it leaves out is as it was at the last scan.
    """

    def __init__(
        self,
        proc: Path,
        opened: Callable[[Path], Collection[int]] | None = None,
        looks: Looks | None = None,
        clock_s: Callable[[], float] = time.thread_time,
        wall_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._proc = proc
        self._looks = looks or OwnLooks(proc)
        self._opened = opened or (every_minor if is_saved(proc) else opened_minors)
        self._clock_s, self._wall_s = clock_s, wall_s
        self._known: dict[int, _Known] = {}

    def scan(self, now_s: float) -> Scan:
        """The processes that hold GPUs now; ``now_s`` is monotonic.

        OSError where /proc itself cannot be read.
        """
        pids = set(self._pids())
        for pid in self._known.keys() - pids:
            del self._known[pid]
        glances, late = self._glances(pids, now_s)
        for seen in self._looks.seen(glances) if glances else ():
            self._note(seen, now_s)
        found = _ranks([known.found for _, known in sorted(self._known.items()) if known.found])
        kept, cut = fair(found, lambda process: process.owner.tenant, MAX_FOUND)
        hidden = sum(known.hidden for known in self._known.values())
        return Scan(tuple(kept), hidden, tuple(cut), late)

    def _pids(self) -> Iterator[int]:
        with os.scandir(self._proc) as entries:
            for _, entry in zip(range(MAX_PROCESSES), entries, strict=False):
                if entry.name.isascii() and entry.name.isdecimal():
                    yield int(entry.name)

    def _glances(self, pids: Iterable[int], now_s: float) -> tuple[list[Glance], Counter[str]]:
        """The processes that are due and may hold a GPU, one of each tenant before the second of
        any; and how many wait.
        """
        rows = [(pid, user) for pid in pids if (user := _user_of(self._proc / str(pid)))]
        stats = self._looks.stats(rows)
        due = [
            one
            for pid, user in rows
            if pid in stats and (one := self._due(pid, user, stats[pid], now_s))
        ]
        spent = _Spent(self._clock_s, self._wall_s)
        late: Counter[str] = Counter()
        glances = []
        for one in in_turns(due, lambda one: one.tenant):
            if spent.all_of(one.tenant):
                late[one.tenant] += 1
                continue
            with spent.by(one.tenant):
                if glance := self._glance(one, now_s):
                    glances.append(glance)
        return glances, late

    def _due(self, pid: int, user: str, stat: procfs.Stat | None, now_s: float) -> _Due | None:
        """A process whose look is due."""
        if stat is None:
            self._known.pop(pid, None)
            return None
        known = self._known.get(pid)
        if known is None or known.started != stat.started:
            known = self._known[pid] = _Known(stat.started)
        if now_s < known.due_s or KTHREADD in (pid, stat.parent):
            return None
        return _Due(pid, stat, user)

    def _glance(self, due: _Due, now_s: float) -> Glance | None:
        """What it has open; None where that is no GPU."""
        process = self._proc / str(due.pid)
        opened: tuple[int, ...] | None = ()
        try:
            opened = tuple(self._opened(process))
        except PermissionError:
            opened = None
        except (FileNotFoundError, ProcessLookupError):
            pass  # it ended meanwhile
        except OSError:
            self._note(Seen(due.pid, "unread"), now_s)
            return None
        if opened == ():
            self._note(Seen(due.pid, "none"), now_s)
            return None
        stat = due.stat
        return Glance(due.pid, stat.comm, stat.parent, stat.started, opened, due.tenant)

    def _note(self, seen: Seen, now_s: float) -> None:
        known = self._known.get(seen.pid)
        if known is None:
            return
        before, found = known.found, seen.found
        if seen.state in ("hidden", "unread"):
            found = before  # it runs on: a helper that is away or busy ends no process
        if before is not None and found is not None:  # who it is does not change, whatever it says
            found = replace(before, uuids=found.uuids, library=found.library or before.library)
        known.found, known.hidden = found, seen.state == "hidden"
        if found and found.library:
            known.pause_s = MAX_PAUSE_S
        known.due_s = now_s + known.pause_s
        known.pause_s = min(2 * known.pause_s, MAX_PAUSE_S)


def _ranks(found: list[Found]) -> list[Found]:
    """Without the children that a rank forked, such as workers that load its data: they inherit its
    mappings and its environment. Lightning's first rank starts the others of its node, which have
    its SLURM_PROCID in an allocation, and a LOCAL_RANK of their own.
    """
    ranks = {p.pid: _rank(p) for p in found}
    return [p for p in found if p.rank < 0 or ranks.get(p.parent) != _rank(p)]


def _rank(process: Found) -> tuple[int, str]:
    return process.rank, process.environment.get("LOCAL_RANK", "0")


def _user_of(process: Path) -> str:
    """Whose share a process uses; of a pod that is not asked here, for its name is in a file."""
    try:
        return f"user{process.stat().st_uid}"
    except OSError:
        return ""


def _nobody(subject: str, tenant: str) -> None:
    """In this process nobody is blamed."""
