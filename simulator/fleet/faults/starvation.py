"""Jobs that wait: for data, host processors, memory, other ranks, power, or nothing that shows.

Tasks of every node of these worlds wait a little all the time, as on any busy host: more in some
worlds than in others.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import exp

import numpy as np

from pipeline.catalog.job_group import KIND as JOB_GROUP
from simulator.fleet.demand import CRAWLS, LACKS, RUNS, STARVES
from simulator.fleet.events import HOST
from simulator.fleet.faults.held_up import Mounts
from simulator.fleet.faults.throttle import brake_node
from simulator.fleet.jobs import FleetJob
from simulator.fleet.plan import Plan
from simulator.fleet.topology import GPUS
from simulator.fleet.world import FleetState, Process

MINUTE = 60.0
# Waits shorter than this are a share of every reading: utilisation is a mean over the last second
# or less (nvml.h, nvmlUtilization_t). Longer ones are seen or not, reading by reading.
MEAN_S = 1.0
PRESSURES = {
    "io": "pressure_io_some_microseconds",
    "cpu": "pressure_cpu_some_microseconds",
    "memory": "pressure_memory_full_microseconds",
}
# Shares of the time of a busy, healthy host; the longest of a minute is twice that.
USUAL = {"io": 0.02, "cpu": 0.06, "memory": 0.001}
# What waits beside it, by the share of it that a case draws: a node that swaps reads, a loader that
# decodes computes.
BESIDE = {"memory": "io", "io": "cpu", "cpu": "io"}
SETTLED_S = 45 * MINUTE


def waits(plan: Plan, *, on: str) -> None:
    """F80 to F85: ``on`` is io, cpu, memory, ranks, power or nothing."""
    level, mounts = plan.draw("background"), Mounts(plan)
    for node in range(plan.topology.nodes):
        seed = int(plan.rng.integers(1 << 31))
        plan.inject(0.0, partial(_background, node=node, seed=seed, level=level))
    for case in plan.cases():
        lasts = plan.draw("minutes") * MINUTE
        place = plan.place(
            lasts, needs_s=lasts, lead_s=SETTLED_S, stays_s=lasts + 10 * MINUTE, fits=plan.has_saved
        )
        if place is None or place.job is None:
            continue
        job, share = place.job, plan.draw("share")
        members = tuple(
            plan.topology.gpus[row]
            for node in job.nodes
            for row in range(node * GPUS, (node + 1) * GPUS)
        )
        plan.truth(case, job.id, place.onset_s, place.onset_s + lasts, kind="job", members=members)
        if on in PRESSURES:
            shares = {on: plan.draw("pressure")}
            shares[BESIDE[on]] = shares[on] * plan.draw("beside")
            slower = mounts.case() if on == "io" else 1.0
            for node in job.nodes:
                act = partial(_presses, node=node, shares=shares, lasts=lasts)
                plan.inject(place.onset_s, act)
                act = partial(_slows, mounts=mounts, node=node, slower=slower, lasts=lasts)
                plan.inject(place.onset_s, act)
            cycle = plan.draw("cycle_s")
            act = partial(_waits, job=job, lasts=lasts, share=share, cycle=cycle)
        elif on == "ranks":
            act = partial(_crawls, job=job, lasts=lasts, speed=1 - share)
        elif on == "power":
            gpus = [row for n in job.nodes for row in range(n * GPUS, (n + 1) * GPUS)]
            act = partial(brake_node, gpus=gpus, duty=share, lasts=lasts)
        else:
            act = partial(_waits, job=job, lasts=lasts)
        plan.inject(place.onset_s, act)


def _background(world: FleetState, *, node: int, seed: int, level: float) -> Process:
    """What a healthy host's tasks wait, a new share each minute, ``level`` times the usual."""
    rng = np.random.default_rng(seed)
    for name in PRESSURES.values():
        world.node_columns[HOST].set_counter(name, 0, node)
    while True:
        for what, share in USUAL.items():
            _add(world, node, what, level * share * 2 * float(rng.random()) * MINUTE, job=0.5)
        yield MINUTE


def _presses(world: FleetState, *, node: int, shares: Mapping[str, float], lasts: float) -> Process:
    for _ in range(int(lasts / MINUTE)):
        for what, share in shares.items():
            _add(world, node, what, share * MINUTE)
        yield MINUTE


def _slows(_: FleetState, *, mounts: Mounts, node: int, slower: float, lasts: float) -> Process:
    mounts.slower[node] = slower
    yield lasts
    mounts.slower[node] = 1.0


def _add(world: FleetState, node: int, what: str, seconds: float, *, job: float = 1.0) -> None:
    """Tasks of a node wait so long, those of its job for a share of that."""
    world.node_columns[HOST].increase(PRESSURES[what], round(seconds * 1e6), node)
    world.waits[JOB_GROUP].increase(PRESSURES[what], round(job * seconds * 1e6), node)


def _waits(
    world: FleetState, *, job: FleetJob, lasts: float, share: float = 1.0, cycle: float = 0.0
) -> Process:
    """GPUs without work for a share of the time: of each step, or, in cycles that are longer than
    a reading looks back, for random times, exponentially distributed.
    """
    if share < 1 and cycle < MEAN_S:
        yield from _at_speed(world, job, LACKS, 1 - share, lasts)
        return
    dt = world.step_s
    stays = exp(-dt / (cycle * share * (1 - share))) if share < 1 else 0.0
    starves = world.rng.random() < share
    for _ in range(int(lasts / dt)):
        _mode(world, job, STARVES if starves else RUNS)
        yield dt
        starves = world.rng.random() < share + (starves - share) * stays
    _mode(world, job, RUNS)


def _crawls(world: FleetState, *, job: FleetJob, lasts: float, speed: float) -> Process:
    yield from _at_speed(world, job, CRAWLS, speed, lasts)


def _at_speed(world: FleetState, job: FleetJob, mode: int, speed: float, lasts: float) -> Process:
    world.work.speed[list(job.nodes)] = speed
    _mode(world, job, mode)
    yield lasts
    _mode(world, job, RUNS)


def _mode(world: FleetState, job: FleetJob, mode: int) -> None:
    for node in job.nodes:
        if world.work.jobs[node] is job:
            world.work.mode[node] = mode
