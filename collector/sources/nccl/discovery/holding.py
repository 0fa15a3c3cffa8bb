"""Which GPUs processes hold, where NVML lists a GPU's processes: every user may open its file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from collector.node.gpu_processes import Holder
from collector.sources.nccl.discovery import procfs
from collector.sources.nccl.discovery.devices import is_saved
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
    servers = {uuid: _mps_users(proc, listed) for uuid, listed in holders.items()}
    saved = is_saved(proc)
    for process in found:
        held = tuple(
            uuid
            for uuid in process.uuids
            if _is_served(process.user, servers.get(uuid, frozenset()), saved=saved)
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


def _is_served(user: int, servers: frozenset[int], *, saved: bool) -> bool:
    """Whether one of these users' MPS servers may hold a GPU for a user: its own, or root's. Any
    process may have that name. In a saved tree nobody has.
    """
    return bool(servers) and (saved or not servers.isdisjoint((user, 0)))


def _mps_users(proc: Path, listed: Iterable[Holder]) -> frozenset[int]:
    """The users of the MPS servers among these processes."""
    found = set()
    for holder in listed:
        folder = proc / str(holder.pid)
        with suppress(OSError):
            if procfs.read(folder / "comm").startswith(MPS.encode()):
                found.add(folder.stat().st_uid)  # the effective one, whatever is dumpable
    return frozenset(found)
