"""One simulated node: its GPUs, memory, links, ports and job in one clock, and the
faults that act on them.

``Node(profile, seed).advance(dt)`` gives the same node for the same seed and the same steps. What
happened but has no register is left in ``kernel`` and ``events`` for the renderers to take.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from simulator.cells import Cells
from simulator.counters import Counter
from simulator.fabric_reports import FabricReports
from simulator.gpus import Gpus
from simulator.kernel_log import KernelLine, Xid
from simulator.links import IbPorts, NvLinks
from simulator.profile import Profile
from simulator.workload import Demand, Workload

STEP_S = 1.0  # longest step of the physics; power and clocks follow the job's steps of 2-30 s
XID_EVENT = 8  # nvmlEventTypeXidCriticalError (nvml.h)
NO_INSTANCE = 0xFFFFFFFF


@dataclass(slots=True)
class Active:
    """A fault on its way: waiting for its time, or acting until ``due_s``."""

    spec: str
    target: str
    due_s: float
    course: Iterator[float]
    started: bool = False


class Node:
    """A node of a profile.

    Time is seconds since its start; rates and states are read from its parts.
    """

    def __init__(self, profile: Profile, seed: int) -> None:
        self.profile, self.seed = profile, seed
        n = profile.gpu.count
        streams = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(6)]
        self.rng = streams[0]
        self.gpus = Gpus(profile.gpu, streams[1])
        self.cells = Cells(n, profile.gpu.banks, streams[2])
        self.nvlinks = NvLinks(n, profile.nvlink, streams[3])
        self.ports = IbPorts(profile.ports, streams[4])
        self.workload = Workload(streams[5])
        self.time_s = 0.0
        self.demand = Demand("idle")
        self.pcie_sent, self.pcie_received = Counter((n,)), Counter((n,))
        self.pcie_rate = np.zeros(n)  # bytes per second received; about 0.7 of it is sent
        self.pcie_replay_rate = np.zeros(n)
        self.pcie_replays = np.zeros(n, np.uint64)
        self.pcie_width = np.full(n, profile.gpu.pcie_width)
        self.pcie_generation = np.full(n, profile.gpu.pcie_generation)
        self.recovery_action = np.zeros(n, np.int64)
        self.fabric = FabricReports(n)
        self.culprit = np.zeros(n, bool)
        self.ras_manner = "sound"  # of the job's RAS server (simulator/nccl/server.py)
        self.stuck: dict[
            int, str
        ] = {}  # GPUs whose rank the others wait for, and how (faults/job.py)
        self.gpu_driver = "nvidia"  # kernel driver that the GPUs are bound to
        self.results: dict[str, int] = {}  # NVML return code (or HANG, ...) by key of the table
        self.kernel: list[KernelLine] = []
        self.events: list[tuple[int, int, int, int, int]] = []
        self.active: list[Active] = []
        name = f"tocsin:{profile.name}:{seed}:"
        self.uuids = [f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, f'{name}gpu{i}')}" for i in range(n)]
        self.serials = [
            f"165{uuid.uuid5(uuid.NAMESPACE_OID, f'{name}serial{i}').int % 10**10:010d}"
            for i in range(n)
        ]
        self.fabric_uuid = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{name}fabric"))
        # Mellanox' company id, then the adapter's number: node GUID, and port GUID one above.
        self.guids = [
            0xA088C2_0300_000000
            + (uuid.uuid5(uuid.NAMESPACE_OID, f"{name}hca{i}").int % 2**20) * 16
            for i in range(self.port_count)
        ]

    @property
    def port_count(self) -> int:
        """Number of InfiniBand ports."""
        return len(self.profile.ports.devices)

    def advance(self, dt: float) -> None:
        """Go on by ``dt`` seconds, in steps of at most a second that end where a
        fault has something to do.
        """
        end = self.time_s + dt
        while self.time_s < end - 1e-9:
            self._act()
            due = min((a.due_s for a in self.active), default=end)
            self._step(min(STEP_S, end - self.time_s, max(due - self.time_s, 1e-3)))
        self._act()

    def schedule(self, spec: str, target: str, delay_s: float, course: Iterator[float]) -> None:
        """Let a fault act from ``delay_s`` on: its course says after each of its acts how many
        seconds to wait for the next.
        """
        self.active.append(Active(spec, target, self.time_s + delay_s, course))

    def xid(self, gpu: int, code: int, **details: Any) -> None:
        """The driver reports an XID: a kernel line and an NVML event.

        Details as in kernel_log.Xid.
        """
        pid = details.pop("pid", self.workload.job.pid + gpu if self.demand.processes else 0)
        xid = replace(Xid(gpu, self.profile.gpu.pci[gpu], code, pid=pid), **details)
        self.kernel.append(xid.line())
        instance = NO_INSTANCE if xid.instance < 0 else xid.instance
        self.events.append((gpu, XID_EVENT, code, instance, NO_INSTANCE if xid.instance < 0 else 0))

    def recover(self, gpu: int, action: int) -> None:
        """The driver now recommends a recovery action, and says so by XID 154."""
        self.recovery_action[gpu] = action
        self.xid(gpu, 154, action=action)

    def _act(self) -> None:
        for fault in [a for a in self.active if a.due_s <= self.time_s + 1e-9]:
            fault.started = True
            try:
                fault.due_s = self.time_s + next(fault.course)
            except StopIteration:
                self.active.remove(fault)

    def _step(self, dt: float) -> None:
        demand = self.demand = self.workload.demand(self.time_s, self.time_s + dt)
        self.gpus.advance(self.time_s, dt, demand, self.workload.job.number, self.culprit)
        self.cells.advance(dt)
        self.nvlinks.advance(dt, demand, self.gpus.present)
        self.ports.advance(dt, demand)
        # PCIe 5.0 x16: 63 GB/s each way
        lanes = self.pcie_width / 16 * 2.0 ** (self.pcie_generation - 5) * 63e9
        self.pcie_rate = (demand.pcie + 2e-6) * lanes * self.gpus.present
        self.pcie_sent.add(0.7 * self.pcie_rate * dt)
        self.pcie_received.add(self.pcie_rate * dt)
        if self.pcie_replay_rate.any():
            self.pcie_replays += self.rng.poisson(self.pcie_replay_rate * dt).astype(np.uint64)
        self.time_s += dt
