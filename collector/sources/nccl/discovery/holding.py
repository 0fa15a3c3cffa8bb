"""Which GPUs processes hold, where NVML lists a GPU's processes: every user may open its file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from collector.node.gpu_processes import Holder
from collector.sources.nccl.discovery import procfs
from collector.sources.nccl.discovery.found import Found

MAX_FORKS = 8  # of one another
MPS = "nvidia-cuda-mps"  # its server holds the GPU in place of its clients


def holding(
    processes: Iterable[Found], holders: Mapping[str, Sequence[Holder]], proc: Path
) -> Iterator[Found]:
    """The processes without GPUs that NVML lists for others only, and without those that only
    inherited them: what a process with a GPU has forked, such as workers that load its data, has
    its mappings and cannot compute.

    An empty list proves nothing: NVML leaves out processes that the agent's pid namespace lacks.
    """
    found = list(processes)
    parents = {process.pid: process.parent for process in found}
    shared = {uuid for uuid, listed in holders.items() if any(_mps(proc, h.pid) for h in listed)}
    for process in found:
        held = tuple(
            uuid
            for uuid in process.uuids
            if uuid in shared
            or not (listed := holders.get(uuid))
            or any(holder.pid == process.pid for holder in listed)
        )
        users = {holder.pid for uuid in process.uuids for holder in holders.get(uuid, ())}
        if process.uuids and not held and not users.isdisjoint(_ancestors(process.pid, parents)):
            continue
        yield process if held == process.uuids else replace(process, uuids=held)


def _ancestors(pid: int, parents: Mapping[int, int]) -> Iterator[int]:
    """As far as they are known."""
    for _ in range(MAX_FORKS):
        if pid not in parents:
            return
        pid = parents[pid]
        yield pid


def _mps(proc: Path, pid: int) -> bool:
    try:
        return procfs.read(proc / str(pid) / "comm").startswith(MPS.encode())
    except OSError:
        return False
