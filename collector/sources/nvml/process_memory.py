"""Memory of the processes that use most of a GPU, as series."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from collector.foreign_text import printable
from collector.sources.control_group import group_of, pod_in
from collector.sources.nvml.wire import GarbageError, Message
from pipeline.catalog import agent
from pipeline.frame import Device
from pipeline.selfmetrics import SelfMetrics

_MAX_ROWS = 32  # of a GPU
_INSTANCES = range(1 << 16)  # others mean none
_MAX_NAME = 15  # proc(5), comm


class Owner(NamedTuple):
    """Name of a process, and whose it is by its control group; empty where that is not known."""

    process: str
    job: str
    pod_uid: str


class ProcessMemory:
    """Keeps what the driver child last said of each GPU."""

    def __init__(self, proc: Path, metrics: SelfMetrics) -> None:
        self._proc, self._metrics = proc, metrics
        self._used: dict[str, list[tuple[int, int, int]]] = {}  # pid, instance, bytes, by UUID
        self._owners: dict[int, Owner] = {}

    def take(self, message: Message, device: Device) -> None:
        """Rows of pid, GPU instance and bytes. GarbageError where the message has none."""
        rows = message.document().get("memory")
        if not isinstance(rows, list) or not all(
            isinstance(row, list)
            and len(row) == 3
            and all(isinstance(n, int) and -1 <= n < 1 << 64 for n in row)
            for row in rows
        ):
            raise GarbageError(f"memory that is none: {rows!r:.200}")
        self._used[device.id] = [(pid, instance, size) for pid, instance, size in rows[:_MAX_ROWS]]

    def show(self, read: Iterable[str]) -> None:
        """The series of the GPUs that were read; a GPU that is lost has none."""
        used = {uuid: self._used[uuid] for uuid in read if uuid in self._used}
        pids = {pid for rows in used.values() for pid, _, _ in rows}
        # Asked once per process: a number that leaves the list may come again as another's.
        self._owners = {pid: self._owners.get(pid) or self._owner(pid) for pid in pids}
        self._metrics.replace(
            agent.GPU_PROCESS_MEMORY,
            {
                (
                    uuid,
                    str(instance) if instance in _INSTANCES else "",
                    str(pid),
                    *self._owners[pid],
                ): float(size)
                for uuid, rows in used.items()
                for pid, instance, size in rows
            },
        )

    def _owner(self, pid: int) -> Owner:
        name, groups = self._text(pid, "comm"), self._text(pid, "cgroup")
        group = group_of(groups)
        job = (group.job or group.sluid) if group else ""
        return Owner(printable(name.strip(), _MAX_NAME), job, pod_in(groups))

    def _text(self, pid: int, name: str) -> str:
        try:
            return (self._proc / str(pid) / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""  # it has ended, or is in no namespace of ours
