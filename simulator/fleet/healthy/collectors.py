"""Healthy life of collectors: clocks that are off, readings that come late, twice, damaged or
never, agents that restart.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pipeline.clock import SECOND_NS
from pipeline.observation import Observation
from simulator.fleet import effects
from simulator.fleet.events import INFINIBAND, NVML
from simulator.fleet.plan import Plan
from simulator.fleet.world import FleetState, Process

MINUTE, HOUR = 60.0, 3600.0
LATEST_S = 600.0
FLAKY_NODES = 0.2  # share of nodes that lose more readings than the others
# what drivers and tools write for "no value" (nvml.h, dcgm_fields.h), had a collector let it pass
SENTINELS = (
    ("power_milliwatts", -1000.0),
    ("power_milliwatts", 4294967295.0),
    ("temperature_celsius", 2147483632.0),
    ("sm_clock_megahertz", 140737488355328.0),
    ("gpu_utilization_percent", 4294967295.0),
    ("memory_temperature_celsius", -1.0),
)


def clocks(plan: Plan) -> None:
    """H16: wall clocks are minutes apart, one is stepped back by 90 s, readings arrive twice, out
    of order, and minutes late.
    """
    for number in range(plan.pick("steps")):
        at = plan.on_grid(float(plan.rng.uniform(HOUR, plan.end_s - HOUR)))
        node = int(plan.rng.integers(plan.topology.nodes))
        plan.inject(at, partial(step_clock, node=node, seconds=-90 if number % 2 == 0 else 45))
    plan.inject(0.0, partial(_late_batches, seed=int(plan.rng.integers(2**32))))


def losses(plan: Plan) -> None:
    """H17: readings get lost, most of all of some nodes, and now and then a collector is gone
    for a quarter of an hour.
    """
    for _ in range(plan.pick("outages")):
        at = plan.on_grid(float(plan.rng.uniform(HOUR, plan.end_s - HOUR)))
        node, whole = int(plan.rng.integers(plan.topology.nodes)), bool(plan.rng.random() < 0.3)
        plan.inject(
            at, partial(_outage, node=node, sources=(NVML, INFINIBAND) if whole else (NVML,))
        )
    plan.inject(0.0, partial(_flaky, share=plan.draw("flaky"), seed=int(plan.rng.integers(2**32))))


def sentinels(plan: Plan) -> None:
    """H18: single fields are missing, or hold what some driver writes for "no value"."""
    plan.inject(0.0, partial(_damage, seed=int(plan.rng.integers(2**32))))


def step_clock(world: FleetState, *, node: int, seconds: int) -> Process:
    """The wall clock of a node is set."""
    world.tell_node("host", node, "clock_step", {"seconds": seconds})
    world.skew_ns[node] += seconds * SECOND_NS
    yield 0.0


def _late_batches(world: FleetState, *, seed: int) -> Process:
    """Some readings are kept back and arrive after those that were read
    later; some arrive twice.
    """
    rng = np.random.default_rng(seed)
    held: list[tuple[int, Observation]] = []

    def transform(observation: Observation) -> Iterable[Observation]:
        due = [late for until, late in held if until <= observation.mono_ns]
        held[:] = [entry for entry in held if entry[0] > observation.mono_ns]
        chance = rng.random()
        if chance < 0.002 and len(held) < 64 and observation.frames:
            held.append(
                (observation.mono_ns + int(rng.uniform(10, LATEST_S) * SECOND_NS), observation)
            )
            return due
        return [*due, observation, observation] if chance > 0.999 else [*due, observation]

    world.transforms.append(transform)
    yield 0.0


def _outage(world: FleetState, *, node: int, sources: tuple[str, ...]) -> Process:
    for source in sources:
        world.silent[source][node] = True
    yield 15 * MINUTE
    for source in sources:
        world.silent[source][node] = False


def _flaky(world: FleetState, *, share: float, seed: int) -> Process:
    """Nodes that lose up to a third of their readings."""
    world.loss[np.random.default_rng(seed).random(world.topology.nodes) < FLAKY_NODES] = share
    yield 0.0


def _damage(world: FleetState, *, seed: int) -> Process:
    rng, schema = np.random.default_rng(seed), world.gpu_columns.schema

    def overlay(gauges: effects.Floats, _: NDArray[np.uint64], observed: NDArray[np.bool_]) -> None:
        for _each in range(int(rng.poisson(2))):
            gpu = int(rng.integers(world.gpus.count))
            if rng.random() < 0.5:
                name, value = SENTINELS[int(rng.integers(len(SENTINELS)))]
                gauges[schema.gauge_row[name], gpu] = value
            else:
                gauges[rng.integers(len(schema.gauges)), gpu] = np.nan
                observed[rng.integers(len(schema.counters)), gpu] = False

    world.overlays[NVML]["damage"] = overlay
    yield 0.0
