"""The fleet in one clock: its hardware, its jobs, and the faults that act on both.

A fault is a generator, as those of a simulated node (simulator/faults): it turns knobs and yields
how many seconds until it acts again. It acts at the beginning of the tick its time falls into.
Between acts whole chunks of ticks are made at once.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator
from itertools import count

import numpy as np

from pipeline.clock import SECOND_NS, Instant
from pipeline.frame import Device
from pipeline.gpu_state import GpuState
from pipeline.observation import Observation, Value
from simulator.cells import Cells
from simulator.fleet.columns import Columns, Overlay
from simulator.fleet.demand import Work
from simulator.fleet.events import HOST, INFINIBAND, JOBS, NVML, Happenings
from simulator.fleet.gpus import FleetGpus
from simulator.fleet.hardware import gpu_columns, node_columns, port_columns
from simulator.fleet.jobs import FleetJob
from simulator.fleet.ports import FleetPorts
from simulator.fleet.scenario import Scenario
from simulator.fleet.topology import GPUS, Topology

Process = Iterator[float]
Transform = Callable[[Observation], Iterable[Observation]]  # what arrives instead of an observation

UP_FOR_NS = 30 * 86400 * SECOND_NS  # the fleet was booted a month before the run
OK, LOST, HUNG, UNREADABLE = GpuState.OK, GpuState.LOST, GpuState.HUNG, GpuState.UNREADABLE


class FleetState:
    """A fleet under a scenario.

    Time is seconds since the start of the run; ``now_s`` is that of the act that goes on.
    """

    def __init__(
        self, scenario: Scenario, topology: Topology, seeds: np.random.SeedSequence, step_s: float
    ) -> None:
        self.scenario, self.topology, self.step_s = scenario, topology, step_s
        settings = scenario.world
        streams = [np.random.default_rng(seed) for seed in seeds.spawn(4)]
        self.rng = streams[0]
        self.profiles = [topology.profile_of(node) for node in range(topology.nodes)]
        self.gpus = FleetGpus(self.profiles, settings, streams[1])
        self.cells = Cells(self.gpus.count, topology.profile.gpu.banks, streams[2])
        self.ports = FleetPorts(
            topology.profile.ports,
            topology.nodes,
            streams[3],
            switches=scenario.switch_ports,
            background=settings.background,
        )
        self.work = Work(topology.nodes, settings.eval_s)
        self.happenings = Happenings()
        self.gpu_columns = gpu_columns(topology, self.profiles)
        for limit in ("enforced", "requested"):  # a site caps its GPUs through the driver
            self.gpu_columns.set_gauge(
                f"power_limit_{limit}_milliwatts", np.floor(self.gpus.limit_w * 1000)
            )
        self.port_columns = port_columns(
            topology,
            topology.profile,
            switches=scenario.switch_ports,
            extended=settings.twins == "yes",
        )
        self.node_columns = node_columns(
            topology, self.rng, (topology.begin_ns - UP_FOR_NS) // SECOND_NS
        )
        # Mounts, disks and control groups by kind, in worlds that have any.
        self.waits: dict[str, Columns] = {}
        # How the agents fare: sources that give nothing, states of GPUs, wall clocks, and readings
        # that are not what the hardware holds.
        self.silent = {
            source: np.zeros(topology.nodes, bool) for source in (NVML, INFINIBAND, HOST)
        }
        # share of a node's readings that never arrive
        self.loss = np.full(topology.nodes, settings.loss)
        self.is_read = np.zeros(topology.nodes, bool)  # of these the next one does
        self.every = np.ones(topology.nodes, np.int64)  # of so many readings one is made
        self.every[1::2] = round(settings.every_read)
        self.gpu_state = np.full(self.gpus.count, OK)
        self.skew_ns = (
            self.rng.uniform(-settings.skew_s, settings.skew_s, topology.nodes).astype(np.int64)
            * SECOND_NS
        )
        self.kmsg = np.full(topology.nodes, settings.kmsg)
        self.overlays: dict[str, dict[object, Overlay]] = {NVML: {}, INFINIBAND: {}}
        self.gpu_rates: dict[
            str, dict[int, float]
        ] = {}  # events per second by counter, of GPUs that have any
        # how much fuller each bin of the FEC history is than the one before should be
        self.fec_knob = np.ones(self.gpus.count)
        # by how many orders of magnitude something has filled the eighth bin
        self.fec_orders = np.zeros(self.gpus.count)
        self.read_ns = 0  # how much longer NVML takes to read
        self.transforms: list[Transform] = []
        self.boots = [0] * topology.nodes
        self.now_s = 0.0
        self._due: list[tuple[float, int, Process]] = []
        self._order = count()
        for job in topology.jobs:
            self.add(job.start_s, self._job(job))

    def add(self, time_s: float, process: Process) -> None:
        """Let a process act from a time on."""
        heapq.heappush(self._due, (time_s, next(self._order), process))

    def act(self, tick: int) -> int:
        """Let everything act that is due before the reading at the end of this tick; the tick at
        which something is due next.
        """
        while self._due and self._tick_of(self._due[0][0]) <= tick:
            time_s, _, process = heapq.heappop(self._due)
            self.now_s = time_s
            wait = next(process, math.inf)
            if wait < math.inf:
                self.add(time_s + wait, process)
        return self._tick_of(self._due[0][0]) if self._due else 1 << 62

    def _tick_of(self, time_s: float) -> int:
        """The tick at whose reading what happens at a time is first seen: ticks end
        at multiples of the step.
        """
        return max(1, math.floor(time_s / self.step_s + 1e-9) + 1)

    def when(self, node: int, after_s: float = 0.0) -> Instant:
        """Now, or a little later, on both clocks of a node; its wall clock may be off."""
        elapsed = round((self.now_s + after_s) * 1e6) * 1000
        return Instant(
            self.topology.begin_ns + elapsed + int(self.skew_ns[node]), UP_FOR_NS + elapsed
        )

    def gpus_of(self, node: int) -> tuple[Device, ...]:
        """The GPUs that stand in a node now."""
        return self.gpu_columns.devices[node * GPUS : (node + 1) * GPUS]

    def job_of(self, gpu: int) -> FleetJob | None:
        """The job that a GPU works for now."""
        return self.work.jobs[gpu // GPUS]

    def tell_node(
        self, source: str, node: int, kind: str, facts: dict[str, Value] | None = None
    ) -> None:
        """An event of a node, now."""
        self.happenings.tell(
            source, self.node_columns[HOST].devices[node], kind, self.when(node), facts
        )

    def _job(self, job: FleetJob) -> Process:
        self.work.start(job)
        rows = np.concatenate([np.arange(node * GPUS, (node + 1) * GPUS) for node in job.nodes])
        self.gpus.new_job(rows)
        unused = rows[rows % GPUS >= job.gpus]
        self.gpus.dead[unused] = self.gpus.processless[unused] = True
        for node in job.nodes:
            gpus = " ".join(device.id for device in self.gpus_of(node)[: job.gpus])
            self.tell_node(
                JOBS,
                node,
                "job_started",
                {
                    "job": job.id,
                    "gpus": gpus,
                    "hosts": len(job.nodes),
                    "name": job.name,
                    **({"user": job.user} if job.user else {}),
                },
            )
        yield job.end_s - job.start_s
        self.work.end(job)
        if len(unused):
            works = self.gpu_state[unused] == OK
            self.gpus.dead[unused[works]] = self.gpus.processless[unused[works]] = False
        for node in job.nodes:
            self.tell_node(JOBS, node, "job_ended", {"job": job.id, "outcome": job.outcome})
