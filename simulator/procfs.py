"""The tree below /proc of a simulated node: identity of the boot, kernel, driver,
memory, the job's processes.

Formats: proc(5).
"""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

from simulator.files import LiveFile, put
from simulator.node import Node


class ProcRenderer:
    """The tree of one node below ``root`` (the DIR/proc of a simulated node).

    ``boot_ns`` is the unix time of its boot.
    """

    def __init__(self, root: Path, node: Node, boot_ns: int) -> None:
        self._node = node
        host = node.profile.host
        # Another boot has another id, also of the same seed: what is known by (boot id,
        # sequence number) starts again.
        self.boot_id = str(
            uuid.uuid5(uuid.NAMESPACE_OID, f"tocsin:{node.profile.name}:{node.seed}:boot:{boot_ns}")
        )
        put(
            root,
            {
                "sys/kernel/random/boot_id": self.boot_id,
                "sys/kernel/osrelease": host.kernel,
                "sys/kernel/hostname": f"sim-{node.profile.name}",
                "version": f"Linux version {host.kernel} (simulated) #1 SMP",
                "stat": f"cpu  0 0 0 0 0 0 0 0 0 0\nbtime {boot_ns // 10**9}\nprocesses 1",
                "driver/nvidia/version": (
                    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  "
                    f"{host.driver}  Release Build"
                ),
            },
        )
        for gpu, pci in enumerate(node.profile.gpu.pci):
            text = (
                f"Model: \t\t {node.profile.answers['nvmlDeviceGetName()']}\n"
                f"GPU UUID: \t {node.uuids[gpu]}\n"
                f"Device Minor: \t {gpu}\n"
                f"Bus Location: \t {pci}.0"
            )
            put(root, {f"driver/nvidia/gpus/{pci}.0/information": text})
        self._memory = LiveFile(root / "meminfo", self._meminfo())
        self._root, self._pids = root, frozenset[int]()

    def render(self) -> None:
        """Write what changed."""
        self._memory.write(self._meminfo())
        node = self._node
        job = node.workload.job.pid
        pids = (
            frozenset(range(job, job + node.profile.gpu.count))
            if node.demand.processes
            else frozenset[int]()
        )
        if pids != self._pids:
            put(self._root, {f"{pid}/comm": "python3" for pid in pids - self._pids})
            for pid in self._pids - pids:
                shutil.rmtree(self._root / str(pid), ignore_errors=True)
            self._pids = pids

    def close(self) -> None:
        """Close all files; the tree stays."""
        self._memory.close()

    def _meminfo(self) -> str:
        total = self._node.profile.host.memory_gib * 1024 * 1024
        free = int(total * (0.55 if self._node.demand.processes else 0.96))
        return (
            f"MemTotal:       {total} kB\n"
            f"MemFree:        {free} kB\n"
            f"MemAvailable:   {free} kB\n"
            "Buffers:        0 kB\n"
            "Cached:         0 kB"
        )
