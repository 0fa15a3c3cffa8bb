"""The look at Slurm's tasks, in a child where one is given: only on a node where Slurm has any."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from collector.sources.jobs.slurm.tasks import AGAIN_S, DAEMON, MAX_PROCESSES, Task, Tasks
from collector.sources.nccl.discovery import procfs
from collector.sources.nccl.discovery.devices import is_saved
from collector.sources.tenants.desk import NODE, Desk, LocalDesk, LookLostError

LOOK_S = 3.0  # the source has five seconds
SKIP_S = 3600.0  # for a process whose look was lost
# for the others of a user, where so many were lost within that time
MAX_LOSSES, REST_S = 2, 600.0


class Daemons:
    """Whether the node has a slurmstepd, by process names that the kernel keeps: each process is
    looked at once, and again a minute or two later, for its number may be another's by then.
    """

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        self._due_s: dict[int, float] = {}
        self._daemons: set[int] = set()

    def any(self, now_s: float) -> bool:
        """One look; ``now_s`` is monotonic. OSError where /proc cannot be listed."""
        pids = set(self._pids())
        self._due_s = {pid: due for pid, due in self._due_s.items() if pid in pids}
        self._daemons &= pids
        for pid in pids:
            if now_s >= self._due_s.get(pid, float("-inf")):
                self._due_s[pid] = now_s + AGAIN_S + pid % AGAIN_S
                (self._daemons.add if self._is_daemon(pid) else self._daemons.discard)(pid)
        return bool(self._daemons)

    def _pids(self) -> Iterator[int]:
        with os.scandir(self._proc) as entries:
            for _, entry in zip(range(MAX_PROCESSES), entries, strict=False):
                if entry.name.isascii() and entry.name.isdecimal():
                    yield int(entry.name)

    def _is_daemon(self, pid: int) -> bool:
        """By its name alone: its stat may wait for ever (sources/nccl/process_looks.py)."""
        try:
            return procfs.read(self._proc / str(pid) / "comm").rstrip(b"\n") == DAEMON.encode()
        except OSError:
            return False


class TaskLook:
    """The tasks of the last look that was not lost."""

    def __init__(self, proc: Path, desk: Desk | None = None) -> None:
        self._proc, self._desk = proc, desk or LocalDesk(Tasks(proc))
        self._daemons = None if is_saved(proc) else Daemons(proc)
        self._tasks: dict[int, Task] = {}
        self._skipped: dict[int, float] = {}
        self._losses: list[tuple[float, str]] = []  # when, and of which user

    def look(self, now_s: float) -> None:
        """Look again; ``now_s`` is monotonic. OSError where /proc cannot be listed, LookLostError
        where the look was lost: the tasks of the last one are kept.
        """
        try:
            if self._daemons is not None and not self._daemons.any(now_s):
                self._tasks = {}
                return
            self._skipped = {pid: at for pid, at in self._skipped.items() if now_s < at}
            self._losses = [(at, user) for at, user in self._losses if now_s - at < REST_S]
            losses = Counter(user for _, user in self._losses)
            resting = tuple(user for user, count in losses.items() if count >= MAX_LOSSES)
            skip = tuple(self._skipped)
            tasks = self._desk.ask(Tasks.tasks, NODE, LOOK_S, now_s, skip, resting)
            self._tasks = {task.pid: task for task in tasks}
        except LookLostError as error:
            if error.subject.isdecimal():
                self._skipped[int(error.subject)] = now_s + SKIP_S
                self._losses.append((now_s, error.tenant))
            raise
        finally:
            self._desk.tend()

    def of(self, pid: int) -> Task | None:
        """The task with a pid; None where it is no job's."""
        return self._tasks.get(pid)

    def there(self, pid: int) -> bool:
        """Whether there is such a process."""
        return os.path.lexists(self._proc / str(pid))

    def all(self) -> Iterator[Task]:
        """Every task."""
        return iter(self._tasks.values())

    def close(self) -> None:
        """End the child."""
        self._desk.close()
