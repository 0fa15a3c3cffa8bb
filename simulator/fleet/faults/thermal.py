"""Heat: cold plates, ageing paste, cooling of a rack, memory that runs hot."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from simulator.fleet.healthy import rollout
from simulator.fleet.healthy.rooms import cycling
from simulator.fleet.plan import Case, Plan
from simulator.fleet.topology import GPUS, RACK
from simulator.fleet.world import FleetState, Process

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
LEARNT_S = 5.5 * DAY  # thermal resistance takes days to know
MEMORY_OVER_CORE_C = 9.0  # in training, at the traffic of the median job
HOT_DUTY = 0.3  # share of time under hardware slowdown once a hot spot trips it
AGEING_STEPS = 200
WORKS_WITHIN = 12  # quarters of an hour
# of training: at the load of a checkpoint or an evaluation the memory is not too hot
HOT_BY_S = 600.0
HOT_WITHIN_S = 1260.0  # by the clock: an evaluation and the longest checkpoint may lie among them


class Warming(NamedTuple):
    """How the air of a rack grows warmer: by which process, by how much in all, until when."""

    process: Callable[..., Process]
    kelvin: float
    lasts_s: float


def cold_plate(plan: Plan) -> None:
    """F10: the thermal resistance of one GPU jumps; in half of the cases a hot spot trips
    hardware slowdown as well.
    """
    for case in plan.cases():
        lasts, tripped = plan.draw("hours") * HOUR, case.number % 2 == 1
        if place := plan.place(
            lasts, needs_s=2.2 * HOUR, alone=False, stays_s=2.2 * HOUR, warm_s=LEARNT_S
        ):
            plan.truth(
                case,
                plan.topology.gpus[place.gpu],
                place.onset_s,
                place.onset_s + lasts,
                severity="page" if tripped else "ticket",
                detect_by_s=180.0 if tripped else 2 * HOUR,
            )
            duty = HOT_DUTY if tripped else 0.0
            plan.inject(
                place.onset_s,
                partial(_step, gpu=place.gpu, more=case.magnitude, duty=duty, lasts=lasts),
            )


def paste(plan: Plan) -> None:
    """F11: the thermal resistance of one GPU grows from day to day."""
    for case in plan.cases():
        days = plan.draw("days")
        if place := plan.place(
            plan.end_s - LEARNT_S, needs_s=5 * DAY, alone=False, warm_s=LEARNT_S
        ):
            plan.truth(case, plan.topology.gpus[place.gpu], place.onset_s, plan.end_s)
            plan.inject(
                place.onset_s, partial(_age, gpu=place.gpu, more=case.magnitude, lasts=days * DAY)
            )


def cooling_of_a_rack(plan: Plan) -> None:
    """F12: the inlet of a whole rack warms up steadily, then stays warm until it is repaired."""
    _warm_racks(plan, warm)


def cooling_in_a_cycling_room(plan: Plan) -> None:
    """F54: the same in a room whose air cycles and steps (healthy/rooms.py)."""
    cycling(plan)
    _warm_racks(plan, _warm_more)


def cooling_after_roll_out(plan: Plan) -> None:
    """F87: the same within hours of the roll-out that changed how warm the GPUs of the rack are."""
    back = rollout.drawn(plan, by_rack=True)
    racks = sorted({node // RACK for node in back})
    for case, rack in zip(plan.cases(), plan.rng.permutation(racks).tolist(), strict=False):
        last = max(back[node] for node in back if node // RACK == rack)
        nodes, after_s = range(rack * RACK, (rack + 1) * RACK), plan.draw("after_hours") * HOUR
        for _ in range(WORKS_WITHIN):  # idle GPUs show little of it
            at_s = last + after_s + 0.5 * HOUR
            if sum(plan.job(node, at_s) is not None for node in nodes) > RACK / 2:
                break
            after_s += 0.25 * HOUR
        onset = plan.on_grid(last + after_s)
        rise, lasts = plan.draw("kelvin"), plan.draw("hours") * HOUR
        if onset > plan.end_s - HOUR or not _warm_rack(
            plan, case, rack, onset, Warming(warm, rise, lasts)
        ):
            plan.skipped += 1


def _warm_racks(plan: Plan, warm: Callable[..., Process]) -> None:
    racks = plan.topology.nodes // RACK
    for case in plan.cases():
        rise, lasts = plan.draw("kelvin"), plan.draw("hours") * HOUR
        for _ in range(50):
            onset, rack = (
                plan.on_grid(float(plan.rng.uniform(5400, plan.end_s - HOUR))),
                int(plan.rng.integers(racks)),
            )
            if _warm_rack(plan, case, rack, onset, Warming(warm, rise, lasts)):
                break
        else:
            plan.skipped += 1


def _warm_rack(plan: Plan, case: Case, rack: int, onset_s: float, how: Warming) -> bool:
    """A rack grows warmer, where no other fault has one of its nodes."""
    nodes = range(rack * RACK, (rack + 1) * RACK)
    if not plan.claim(nodes, onset_s, onset_s + how.lasts_s):
        return False
    topology = plan.topology
    gpus = [node * GPUS + slot for node in nodes for slot in range(GPUS)]
    members = (
        *(topology.gpus[gpu] for gpu in gpus),
        *(topology.node_devices[node] for node in nodes),
    )
    plan.truth(case, topology.rack(nodes[0]), onset_s, onset_s + how.lasts_s, members=members)
    process = partial(
        how.process, gpus=gpus, per_minute=case.magnitude, rise=how.kelvin, lasts=how.lasts_s
    )
    plan.inject(onset_s, process)
    return True


def hot_memory(plan: Plan) -> None:
    """F13: the memory of one GPU runs over its operating temperature; software holds the clock
    back, the core stays cool.
    """
    for case in plan.cases():
        lasts = plan.draw("hours") * HOUR
        if place := plan.place(lasts, needs_s=HOT_WITHIN_S, stays_s=HOT_WITHIN_S):
            by_s = plan.until_seen(place, HOT_BY_S, "train")
            plan.truth(
                case,
                plan.topology.gpus[place.gpu],
                place.onset_s,
                place.onset_s + lasts,
                detect_by_s=by_s,
            )
            plan.inject(
                place.onset_s, partial(_heat, gpu=place.gpu, over=case.magnitude, lasts=lasts)
            )


def _step(world: FleetState, *, gpu: int, more: float, duty: float, lasts: float) -> Process:
    world.gpus.cooling[gpu] *= 1 + more
    world.gpus.hot_duty[gpu] = duty
    yield lasts
    world.gpus.cooling[gpu] /= 1 + more
    world.gpus.hot_duty[gpu] = 0.0


def _age(world: FleetState, *, gpu: int, more: float, lasts: float) -> Process:
    for step in range(1, AGEING_STEPS + 1):
        world.gpus.cooling[gpu] = 1 + more * step / AGEING_STEPS
        yield lasts / AGEING_STEPS


def warm(
    world: FleetState, *, gpus: list[int], per_minute: float, rise: float, lasts: float
) -> Process:
    """The inlet of these GPUs rises by ``rise`` kelvin; after ``lasts`` seconds it is as before."""
    minutes = math.ceil(rise / per_minute)
    for minute in range(1, minutes + 1):
        world.gpus.inlet_rise[gpus] = min(per_minute * minute, rise)
        yield MINUTE
    yield max(lasts - minutes * MINUTE, MINUTE)
    world.gpus.inlet_rise[gpus] = 0.0


def _warm_more(
    world: FleetState, *, gpus: list[int], per_minute: float, rise: float, lasts: float
) -> Process:
    """On top of what the room does."""
    minutes = math.ceil(rise / per_minute)
    for _ in range(minutes):
        world.gpus.inlet_rise[gpus] += rise / minutes
        yield MINUTE
    yield max(lasts - minutes * MINUTE, MINUTE)
    world.gpus.inlet_rise[gpus] -= rise


def _heat(world: FleetState, *, gpu: int, over: float, lasts: float) -> Process:
    """The memory would run so far over its limit in training, did software
    not hold the clock back.
    """
    job, limit = world.job_of(gpu), world.topology.profile.gpu.memory_max_c
    if job is None:
        return
    core = world.gpus.expected_c(gpu, job.work.load, job.work.communication)
    target = max(limit + over - core - MEMORY_OVER_CORE_C, 0.0)
    for step in range(1, 6):
        world.gpus.memory_heat[gpu] = target * step / 5
        yield 30.0
    yield lasts - 150.0
    world.gpus.memory_heat[gpu] = 0.0
