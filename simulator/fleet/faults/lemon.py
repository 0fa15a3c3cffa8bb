"""A node on which one thing after the other goes wrong: each has a ticket of its own, which is
right, and the last one makes the node a lemon.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from simulator.fleet import effects
from simulator.fleet.faults import pcie, throttle
from simulator.fleet.plan import Case, Plan
from simulator.fleet.topology import GPUS
from simulator.fleet.truth import EntityKind
from simulator.fleet.world import FleetState, Process

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
Weak = Callable[..., Process]


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
            for number, (at, process, slot) in enumerate(zip(times, order, slots, strict=False)):
                plan.inject(at, partial(process, gpu=first + slot))
                _part(plan, case, f"/{number}", (process, at, first + slot))


def _part(plan: Plan, case: Case, suffix: str, what: tuple[Weak, float, int]) -> None:
    """One of the six: a fault of its own, whose ticket is about its own device."""
    process, at, row = what
    fault, kind, lasts, by_s = PARTS[process]
    job = plan.job(row // GPUS, at)
    if process is _hot_memory and not (job and job.runs(at, at + lasts)):
        return  # heat is judged under load
    device = (plan.topology.ports if kind == "port" else plan.topology.gpus)[row]
    end = plan.end_s if not lasts else at + lasts
    plan.truth(
        case, device, at, end, kind=kind, fault=fault, severity="ticket", detect_by_s=by_s,
        suffix=suffix,
    )  # fmt: skip


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


# Class, what is broken, seconds until it is repaired (0: never), and seconds until it is due.
PARTS: Mapping[Weak, tuple[str, EntityKind, float, float]] = {
    _contained: ("ecc", "gpu", 2 * HOUR, MINUTE),
    _replays: ("pcie", "gpu", 20 * MINUTE, 20 * MINUTE),
    _limit: ("power-limit", "gpu", 20 * MINUTE, 10 * MINUTE),
    _hot_memory: ("throttle", "gpu", 40 * MINUTE, 40 * MINUTE),
    _full_counter: ("observability", "port", 0.0, MINUTE),
}
