"""A node on which one thing after the other goes wrong."""

from __future__ import annotations

from functools import partial

from simulator.fleet import effects
from simulator.fleet.faults import pcie, throttle
from simulator.fleet.plan import Plan
from simulator.fleet.topology import GPUS
from simulator.fleet.world import FleetState, Process

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


def lemon(plan: Plan) -> None:
    """F31: six weak and different faults of one node within a month, each a ticket of its own."""
    for case in plan.cases():
        spread = plan.draw("days") * DAY
        if place := plan.place(spread + DAY, needs_s=spread + HOUR, busy=False, alone=False):
            node, first = place.node, place.node * GPUS
            processes = [_contained, _replays, _limit, _limit, _hot_memory, _full_counter]
            order = [processes[i] for i in plan.rng.permutation(len(processes))]
            gaps = plan.rng.dirichlet([4.0] * (len(order) - 1)) * spread
            times = [
                plan.on_grid(place.onset_s + float(gaps[:number].sum()))
                for number in range(len(order))
            ]
            members = (
                *plan.topology.gpus[first : first + GPUS],
                *plan.topology.ports[first : first + GPUS],
            )
            plan.truth(
                case,
                plan.topology.node_devices[node],
                times[0],
                times[-1] + DAY,
                evident_s=times[-1],
                members=members,
            )
            slots = plan.rng.permutation(GPUS).tolist()
            for at, process, slot in zip(times, order, slots, strict=False):
                plan.inject(at, partial(process, gpu=first + slot))


def _contained(world: FleetState, *, gpu: int) -> Process:
    effects.uncorrectable(world, gpu)
    yield 2 * HOUR
    effects.reset(world, gpu)


def _replays(world: FleetState, *, gpu: int) -> Process:
    yield from pcie.storm(world, gpu=gpu, per_s=2.0, lasts=20 * MINUTE)


def _limit(world: FleetState, *, gpu: int) -> Process:
    yield from throttle.lower(world, gpus=[gpu], watts=500.0, lasts=20 * MINUTE)


def _hot_memory(world: FleetState, *, gpu: int) -> Process:
    world.gpus.memory_heat[gpu] = 35.0
    yield 40 * MINUTE
    world.gpus.memory_heat[gpu] = 0.0


def _full_counter(world: FleetState, *, gpu: int) -> Process:
    world.port_columns.set_counter("symbol_errors", 65535, gpu)
    yield 0.0
