"""Healthy life of jobs: what their phases, sizes and settings do to the GPUs."""

from __future__ import annotations

from functools import partial
from itertools import cycle

import numpy as np

from simulator.fleet import effects
from simulator.fleet.plan import Plan
from simulator.fleet.topology import GPUS
from simulator.fleet.world import FleetState, Process

MINUTE, HOUR = 60.0, 3600.0
SWEEP = (0.5, 0.6, 0.7, 0.8, 1.0)  # of the highest clock


def as_described(plan: Plan) -> None:
    """Nothing beyond what the scenario's file says of the world."""


def mixed_limits(plan: Plan) -> None:
    """H07: in some nodes an administrator set a lower power limit, requested and enforced alike."""
    watts = plan.topology.profile.gpu.power_limit_w
    for node in range(plan.topology.nodes):
        if node % 4 == 1:
            plan.inject(
                0.0,
                partial(_asked_limit, node=node, watts=watts * float(plan.rng.uniform(0.7, 0.9))),
            )


def capped(plan: Plan) -> None:
    """H08: the whole cluster runs under a power limit that its owner asked for."""
    for node in range(plan.topology.nodes):
        plan.inject(0.0, partial(_asked_limit, node=node, watts=plan.scenario.world.cap_w))


def burn_in(plan: Plan) -> None:
    """H26: a burn-in: every GPU at full load for hours, all of them hot,
    the room warmer than usual.
    """
    rise = plan.draw("kelvin")
    plan.inject(0.0, partial(_warm_room, rise=rise))


def clock_sweep(plan: Plan) -> None:
    """H27: somebody measures: all GPUs of a job step through locked clocks, five minutes each."""
    for job in plan.topology.jobs:
        if job.end_s - job.train_s > 2 * HOUR and plan.rng.random() < 0.7:
            plan.inject(
                job.train_s + 10 * MINUTE,
                partial(_sweep, nodes=job.nodes, until=min(job.end_s, job.train_s + 6 * HOUR)),
            )


def state_changes(plan: Plan) -> None:
    """H22: for one reading at the start of each phase the umbrella bit of hardware slowdown stands,
    without heat, brake or duty.
    """
    for job in plan.topology.jobs:
        at = job.train_s
        while at < job.end_s:
            plan.inject(at, partial(_umbrella, nodes=job.nodes))
            at += job.work.checkpoint_every_s


def _asked_limit(world: FleetState, *, node: int, watts: float) -> Process:
    for gpu in range(node * GPUS, (node + 1) * GPUS):
        effects.limit(world, gpu, watts)
        world.gpu_columns.set_gauge(
            "power_limit_requested_milliwatts", float(int(watts * 1000)), gpu
        )
    yield 0.0


def _warm_room(world: FleetState, *, rise: float) -> Process:
    for minute in range(60):
        world.gpus.inlet_rise[:] = rise * minute / 60
        yield MINUTE


def _sweep(world: FleetState, *, nodes: tuple[int, ...], until: float) -> Process:
    rows = np.array([gpu for node in nodes for gpu in range(node * GPUS, (node + 1) * GPUS)])
    for share in cycle(SWEEP):
        if world.now_s >= until:
            break
        effects.lock_clocks(world, rows, share)
        yield 5 * MINUTE
    effects.lock_clocks(world, rows, 1.0)


def _umbrella(world: FleetState, *, nodes: tuple[int, ...]) -> Process:
    """HW slowdown (0x8) by itself: set at changes of the performance state."""
    rows = [
        node * GPUS + slot for node in nodes for slot in range(GPUS) if world.rng.random() < 0.3
    ]
    columns = world.gpu_columns
    row = columns.schema.gauge_row["clock_event_reasons"]

    def overlay(gauges: effects.Floats, _c: object, _o: object) -> None:
        gauges[row, rows] = 8.0

    world.overlays["nvml"][overlay] = overlay
    yield world.step_s
    del world.overlays["nvml"][overlay]
