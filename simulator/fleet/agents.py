"""What the agents of a fleet read: one observation per source and tick, with the
frames of all nodes joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pipeline.catalog.ib_port import ABSENT
from pipeline.catalog.job_group import KIND as JOB_GROUP
from pipeline.clock import Instant
from pipeline.frame import Device, Frame
from pipeline.observation import Observation, Unread
from simulator.fleet.columns import Chunk, Columns
from simulator.fleet.events import HOST, INFINIBAND, JOBS, KMSG, NVML, WAITS
from simulator.fleet.readings import gpu_chunk, port_chunk, twins
from simulator.fleet.topology import GPUS
from simulator.fleet.world import OK, UP_FOR_NS, FleetState

Flags = NDArray[np.bool_]

FLEET = "fleet"  # host and boot of the joined observations
MAX_CHUNK = 60  # ticks: what is made at once stays within the processor's caches
TWIN_PERIOD_S = 60.0  # how often an agent asks for 64-bit counters
HOST_PERIOD_S = 60.0  # how often it reads slow facts of its host
WAITS_PERIOD_S = 60.0  # and what jobs wait for: of these worlds it is made for each minute
NO_STAMP = 0
READ_NS = {
    JOBS: 1_000_000,
    KMSG: 200_000,
    NVML: 45_000_000,
    INFINIBAND: 4_000_000,
    HOST: 1_000_000,
    WAITS: 1_000_000,
}


class Agents:
    """Reads a world.

    The world's ``transforms`` change what arrives: batches that come late, twice or not at all.
    """

    def __init__(self, world: FleetState, seeds: np.random.SeedSequence) -> None:
        self._world = world
        streams = [np.random.default_rng(seed) for seed in seeds.spawn(2)]
        self._poll, self._balance = streams
        self._runs = np.random.default_rng(seeds.spawn(1)[0])
        self._missing = np.zeros(world.topology.nodes, np.int64)  # readings still to be missed
        self._nobody = Chunk()
        self._observed = 0
        self._unstamped = {
            kind: np.zeros(n, np.int64)
            for kind, n in (("node", world.topology.nodes), ("port", world.ports.count))
        }

    def observations(self, ticks: int) -> Iterator[Observation]:
        """All observations of that many ticks, numbered in the order they arrive."""
        tick, seq = 1, 0
        while tick <= ticks:
            end = min(tick + MAX_CHUNK, self._world.act(tick), ticks + 1)
            for observation in self._chunk(np.arange(tick, end)):
                for arrived in self._arriving(observation):
                    seq += 1
                    yield arrived if arrived.seq == seq else replace(arrived, seq=seq)
            tick = end

    def _arriving(self, observation: Observation) -> Iterable[Observation]:
        arriving: Iterable[Observation] = (observation,)
        for transform in self._world.transforms:
            arriving = [arrived for one in arriving for arrived in transform(one)]
        return arriving

    def _chunk(self, at: NDArray[np.intp]) -> Iterator[Observation]:
        world, ticks, step = self._world, len(at), self._world.step_s
        settings, nodes = world.scenario.world, world.topology.nodes
        if settings.imbalance:
            world.work.imbalance = np.clip(
                1 + settings.imbalance * self._balance.standard_normal(nodes), 0.5, 1.5
            )
        times_s = at.astype(np.float64) * step
        demands = world.work.demands(times_s, step)
        early_s = np.repeat(
            self._poll.uniform(0, min(settings.jitter_s, 0.9 * step), (ticks, nodes)), GPUS, axis=1
        )
        lost = {
            source: self._poll.random((ticks, nodes)) < world.loss for source in (NVML, INFINIBAND)
        }
        skipped = at[:, None] % world.every != 0
        if settings.missed_run > 1:
            skipped |= self._in_runs(ticks)
        for missed in lost.values():
            np.logical_or(missed, skipped, out=missed)
            missed[0] &= ~world.is_read
        world.is_read[:] = False

        made = world.gpus.advance(times_s, step, demands)
        gpus = gpu_chunk(
            world.gpu_columns, world.gpus, made, demands, unseen=early_s / step, dt=step
        )
        self._gpu_errors(gpus, ticks)
        moved = world.ports.advance(ticks, step, demands)
        ports = port_chunk(world.port_columns, moved)
        twins(world.port_columns, moved, ports, _crosses(times_s, step, TWIN_PERIOD_S))
        stamps = self._stamps(times_s, early_s)
        hosts = _crosses(times_s, step, HOST_PERIOD_S)
        waits = _crosses(times_s, step, WAITS_PERIOD_S)
        for tick in range(ticks):
            now = self._now(float(times_s[tick]))
            yield self._observation(JOBS, now)
            yield self._observation(KMSG, now)
            yield self._observation(
                NVML, now, self._nvml(gpus, tick, now, stamps[tick], lost[NVML][tick])
            )
            yield self._observation(
                INFINIBAND, now, self._infiniband(ports, tick, now, lost[INFINIBAND][tick])
            )
            if hosts[tick]:
                yield self._observation(
                    HOST, now, (self._node_frame(HOST, now, world.silent[HOST]),)
                )
            if world.waits and waits[tick]:
                yield self._observation(WAITS, now, tuple(self._waits(now)))
        world.gpu_columns.keep(gpus)
        world.port_columns.keep(ports)

    def _waits(self, now: Instant) -> Iterator[Frame]:
        """Mounts, and the control groups of the jobs that run: where none does there is none."""
        world = self._world
        for kind, columns in world.waits.items():
            hidden = world.silent[HOST].copy()
            if kind == JOB_GROUP:
                for node, job in enumerate(world.work.jobs):
                    hidden[node] |= job is None
                    if job is not None and columns.devices[node].attributes["job"] != job.id:
                        device = Device(columns.devices[node].host, kind, "0", {"job": job.id})
                        columns.replace(node, device)
            yield columns.frame(self._nobody, 0, now, self._unstamped["node"], hidden=hidden)

    def _in_runs(self, ticks: int) -> Flags:
        """Readings that are missed in a row, (tick, node), of geometric length."""
        settings, nodes = self._world.scenario.world, self._world.topology.nodes
        run = max(1.0, settings.missed_run / self._world.step_s)
        chance = settings.missed_share / 2 / run
        begins = self._runs.random((ticks, nodes)) < chance
        lengths = self._runs.geometric(1 / run, (ticks, nodes))
        missed = np.zeros((ticks, nodes), bool)
        for tick in range(ticks):
            self._missing = np.maximum(self._missing - 1, begins[tick] * lengths[tick])
            missed[tick] = self._missing > 0
        return missed

    def _gpu_errors(self, chunk: Chunk, ticks: int) -> None:
        """Counters of GPUs that faults keep moving, by the Poisson law."""
        world = self._world
        for name, gpus in world.gpu_rates.items():
            if gpus:
                increments = np.zeros((ticks, world.gpus.count))
                mean = np.fromiter(gpus.values(), np.float64) * world.step_s
                increments[:, np.fromiter(gpus, np.intp)] = world.rng.poisson(
                    mean, (ticks, len(gpus))
                )
                chunk.counters[name] = world.gpu_columns.integrate(name, increments)

    def _now(self, time_s: float) -> Instant:
        elapsed = round(time_s * 1e6) * 1000
        return Instant(self._world.topology.begin_ns + elapsed, UP_FOR_NS + elapsed)

    def _stamps(
        self, times_s: NDArray[np.float64], early_s: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """When the driver of each GPU says its values were taken, by the clock of its
        node, in whole microseconds.
        """
        world = self._world
        micros = np.rint((times_s[:, None] - early_s) * 1e6).astype(np.int64)
        base = world.topology.begin_ns + np.repeat(world.skew_ns, GPUS)
        return np.asarray(micros * 1000 + base)

    def _observation(
        self, source: str, now: Instant, frames: tuple[Frame, ...] = ()
    ) -> Observation:
        events = self._world.happenings.take(source, now.mono_ns)
        took = READ_NS[source] + (self._world.read_ns if source == NVML else 0)
        silent = self._world.silent.get(source)
        unread = (
            ()
            if silent is None or not silent.any()
            else tuple(Unread("timeout", host) for host in self._hosts(silent))
        )
        self._observed += 1  # its number, unless what arrives is something else
        return Observation(source, FLEET, FLEET, self._observed, *now, took, frames, events, unread)

    def _hosts(self, nodes: Flags) -> Iterator[str]:
        return (self._world.topology.hosts[node] for node in np.flatnonzero(nodes).tolist())

    def _nvml(
        self, chunk: Chunk, tick: int, now: Instant, stamps: NDArray[np.int64], lost: Flags
    ) -> tuple[Frame, ...]:
        world = self._world
        silent = lost | world.silent[NVML]
        hidden = np.repeat(silent, GPUS)
        overlays = list(world.overlays[NVML].values())
        bad = world.gpu_state != OK
        if bad.any():
            overlays.append(_dark(world.gpu_columns, bad & ~hidden, world.gpu_state))
        frame = world.gpu_columns.frame(chunk, tick, now, stamps, hidden=hidden, overlays=overlays)
        return frame, self._node_frame(NVML, now, silent)

    def _infiniband(self, chunk: Chunk, tick: int, now: Instant, lost: Flags) -> tuple[Frame, ...]:
        world = self._world
        silent = lost | world.silent[INFINIBAND]
        hidden = np.zeros(world.ports.count, bool)
        hidden[: world.ports.ends] = np.repeat(silent, GPUS)
        overlays = list(world.overlays[INFINIBAND].values())
        gone = ~world.ports.present
        if gone.any():
            overlays.append(
                _dark(world.port_columns, gone & ~hidden, np.full(world.ports.count, ABSENT))
            )
        frame = world.port_columns.frame(
            chunk, tick, now, self._unstamped["port"], hidden=hidden, overlays=overlays
        )
        return frame, self._node_frame(INFINIBAND, now, silent)

    def _node_frame(self, source: str, now: Instant, silent: Flags) -> Frame:
        return self._world.node_columns[source].frame(
            self._nobody, 0, now, self._unstamped["node"], hidden=silent
        )


def _crosses(times_s: NDArray[np.float64], step: float, period: float) -> Flags:
    """At which ticks something is done that is done once in a period."""
    return np.asarray(np.floor(times_s / period) > np.floor((times_s - step) / period))


def _dark(columns: Columns, rows: Flags, state: NDArray[np.int64]) -> Callable[..., None]:
    """Devices of which only the state is known."""
    row, kept = columns.schema.gauge_row["state"], columns.schema.gauge_row.get("expected")

    def overlay(
        gauges: NDArray[np.float64], _: NDArray[np.uint64], observed: NDArray[np.bool_]
    ) -> None:
        expected = None if kept is None else gauges[kept, rows].copy()
        gauges[:, rows] = np.nan
        observed[:, rows] = False
        gauges[row, rows] = state[rows]
        if expected is not None:
            gauges[kept, rows] = expected

    return overlay
