"""Looks at the processes of the node, in the child, tenant by tenant.

Reading even /proc/PID/stat may wait for ever: for the end of an execve(2) that waits for a file
that the process serves itself (fs/exec.c, exec_update_lock; FUSE). A process that costs a look is
put off for an hour, and its tenant's others for a minute where a second one does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from collector.sources.nccl.discovery.found import Glance, Seen
from collector.sources.nccl.discovery.procfs import Stat
from collector.sources.nccl.reader import NcclReader
from collector.sources.tenants.desk import Desk, LookLostError, Who

Row = tuple[int, str]  # a process and its user, as a tenant
A = TypeVar("A")

STATS, STATS_S = 1024, 2.0  # processes of a tenant looked at together, in how many seconds
GLANCES, GLANCES_S = 256, 5.0
# After so many losses of a tenant its others wait; after so many of all in one scan, new tenants.
MAX_LOSSES, MAX_OF_ALL = 2, 6
SKIP_S, REST_S = 3600.0, 60.0


class ProcessLooks:
    """``desk`` has an NcclReader. Times are monotonic."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self._now_s, self._losses = desk, 0.0, 0
        self._skipped: dict[Row, float] = {}  # until when
        self._rests: dict[str, float] = {}  # tenants, until when
        self._good: frozenset[str] = frozenset()  # whose looks of the last scan were not lost

    def begin(self, now_s: float) -> None:
        """A scan begins."""
        self._now_s, self._losses = now_s, 0
        self._skipped = {row: at for row, at in self._skipped.items() if now_s < at}
        self._rests = {tenant: at for tenant, at in self._rests.items() if now_s < at}

    def stats(self, rows: Sequence[Row]) -> dict[int, Stat | None]:
        """Of each process its stat, None where it has ended; without those that are put off."""
        wanted = [row for row in rows if row not in self._skipped]
        found: dict[int, Stat | None] = {}

        def ask(tenant: str, some: Sequence[Row]) -> None:
            pids = tuple(pid for pid, _ in some)
            stats = self._desk.ask(NcclReader.stats, Who("", tenant), STATS_S, pids, tenant)
            found.update(dict.fromkeys(pids) | dict(stats))

        self._by_tenant(wanted, lambda row: row, STATS, ask)
        return found

    def seen(self, glances: Sequence[Glance]) -> list[Seen]:
        """The looks at processes that hold GPUs."""
        found: list[Seen] = []

        def ask(tenant: str, some: Sequence[Glance]) -> None:
            found.extend(
                self._desk.ask(NcclReader.processes, Who("", tenant), GLANCES_S, tuple(some))
            )

        self._by_tenant(glances, lambda glance: (glance.pid, glance.tenant), GLANCES, ask)
        return found

    def _by_tenant(
        self,
        items: Sequence[A],
        row: Callable[[A], Row],
        at_once: int,
        ask: Callable[[str, Sequence[A]], None],
    ) -> None:
        queues: dict[str, list[A]] = {}
        for item in items:
            queues.setdefault(row(item)[1], []).append(item)
        lost = set()
        for tenant in sorted(queues, key=lambda tenant: tenant not in self._good):
            known = tenant in self._good
            if tenant in self._rests or (self._losses >= MAX_OF_ALL and not known):
                continue
            if not self._all_of(tenant, queues[tenant], row, at_once, ask):
                lost.add(tenant)
        self._good = (self._good | frozenset(queues)) - lost - self._rests.keys()

    def _all_of(
        self,
        tenant: str,
        waiting: list[A],
        row: Callable[[A], Row],
        at_once: int,
        ask: Callable[[str, Sequence[A]], None],
    ) -> bool:
        """Ask about all of a tenant, at most ``MAX_LOSSES`` of whose looks may be lost; whether
        none was.
        """
        losses = 0
        while waiting and losses < MAX_LOSSES:
            try:
                ask(tenant, waiting[:at_once])
                waiting = waiting[at_once:]
            except LookLostError as error:
                losses += 1
                if error.subject.isdecimal():
                    culprit = (int(error.subject), tenant)
                    self._skipped[culprit] = self._now_s + SKIP_S
                    waiting = [item for item in waiting if row(item) != culprit]
        self._losses += losses
        if losses == MAX_LOSSES:
            self._rests[tenant] = self._now_s + REST_S
        return not losses
