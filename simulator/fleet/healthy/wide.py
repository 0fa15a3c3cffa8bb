"""Worlds that differ in everything at once: jobs, air, readings and what people do, drawn per run
from simulator/fleet/ranges.toml. Nothing here is a fault.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from simulator.fleet import effects
from simulator.fleet.demand import RUNS, STARVES
from simulator.fleet.healthy import collectors, kernel, operations, rooms, storage
from simulator.fleet.jobs import FleetJob
from simulator.fleet.pauses import pause
from simulator.fleet.plan import Plan
from simulator.fleet.topology import GPUS, RACK
from simulator.fleet.world import FleetState, Process

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
SERVE, CRASH, EXPERTS = "serve", "crash", "experts"
APPLICATION = (13, 31, 43)  # XIDs that programs cause
XID_SHARE = 0.2  # of starts that crash
PARTS = (4, 6)  # GPUs of a node that a job holds: fewer have no peers
LATE_S = (30.0, 600.0)  # after its start a job crashes
STEPS_S = (-90, -5, 30, 300)  # of wall clocks
LOAD_PER_IMBALANCE = 0.15  # power of ranks differs by 2 to 15 % where tokens differ by 1.1 to 4


def jobs(plan: Plan) -> None:
    """Some jobs serve, hold a part of their node, or crash again and again before they run."""
    rng, found = plan.rng, list[FleetJob]()
    for job in plan.topology.jobs:
        if len(job.nodes) == 1 and rng.random() < plan.draw("serving_share"):
            found.append(replace(job, name=SERVE, user="serving"))
        elif len(job.nodes) == 1 and rng.random() < plan.draw("partial_share"):
            found.append(replace(job, gpus=int(rng.choice(PARTS))))
        elif rng.random() < plan.draw("loop_share"):
            found += _loop(plan, job)
        elif rng.random() < plan.draw("expert_share"):
            found.append(replace(job, name=EXPERTS))
        else:
            found.append(job)
    kept = plan.topology.jobs
    assert isinstance(kept, list)  # noqa: S101 - the plan's own
    kept[:] = sorted(found, key=lambda job: job.start_s)


def air_and_readings(plan: Plan) -> None:
    """The room, requests that come and go, experts that drift, caps by the site."""
    plan.inject(
        0.0,
        partial(rooms.breathe, waves=rooms.waves_of(plan), noise_k=plan.draw("noise_k")),
    )
    for job in plan.topology.jobs:
        if job.name == SERVE:
            tide, zero = plan.draw("serving_tide"), plan.draw("serving_zero")
            plan.inject(job.train_s, partial(_serve, job=job, tide=tide, zero=zero))
        if job.name == EXPERTS:
            spread = LOAD_PER_IMBALANCE * (1 - 1 / plan.draw("expert_imbalance"))
            drift_s = plan.draw("expert_drift_minutes") * MINUTE
            plan.inject(job.train_s, partial(_experts, job=job, spread=spread, drift_s=drift_s))
    for _ in range(int(plan.rng.poisson(plan.draw("caps_a_day") * plan.end_s / DAY))):
        at, lasts = float(plan.rng.uniform(0, plan.end_s)), plan.draw("cap_hours") * HOUR
        rack = int(plan.rng.integers(math.ceil(plan.topology.nodes / RACK)))
        nodes = range(rack * RACK, min((rack + 1) * RACK, plan.topology.nodes))
        act = partial(_cap, nodes=nodes, keeps=1 - plan.draw("cap_depth"), lasts=lasts)
        plan.inject(plan.on_grid(at), act)


def life(plan: Plan) -> None:
    """H47: all that, and saves, evaluations and loaders, boots, drivers that are replaced in a
    wave, and clocks that are set.
    """
    site = storage.habits_of(plan)
    _reloads(plan)
    kernel.planned_boots(plan)
    for job in plan.topology.jobs:
        if job.name not in (SERVE, CRASH):
            name = job.name
            for what in storage.pauses_of(plan, job, site):
                plan.inject(what.at_s, partial(pause, job=job, what=what))
            job.name = name if name == EXPERTS else job.name
    months = plan.topology.nodes * plan.end_s / (30 * DAY)
    for _ in range(int(plan.rng.poisson(plan.draw("clock_steps") * months))):
        at = plan.on_grid(float(plan.rng.uniform(HOUR, plan.end_s - HOUR)))
        node, seconds = int(plan.rng.integers(plan.topology.nodes)), int(plan.rng.choice(STEPS_S))
        plan.inject(at, partial(collectors.step_clock, node=node, seconds=seconds))


def _loop(plan: Plan, job: FleetJob) -> list[FleetJob]:
    """Starts that crash, then the job itself in what is left of its time."""
    rng, at, found = plan.rng, job.start_s, list[FleetJob]()
    for number in range(plan.pick("loop_starts")):
        end = at + float(rng.uniform(*LATE_S))
        if end > job.end_s - 2 * HOUR:
            break
        crash = replace(
            job, id=f"{job.id}0{number:02d}", name=CRASH, start_s=at, end_s=end, outcome="failed"
        )
        found.append(replace(crash, work=replace(job.work, start_s=at, end_s=end)))
        if rng.random() < XID_SHARE:
            row = int(rng.choice(job.nodes)) * GPUS + int(rng.integers(GPUS))
            act = partial(_crash, row=row, code=int(rng.choice(APPLICATION)))
            plan.inject(plan.on_grid(end), act)
        at = end + plan.draw("loop_gap_s")
    work = replace(job.work, start_s=at)
    return [*found, replace(job, start_s=at, work=work, name="train")]


def _crash(world: FleetState, *, row: int, code: int) -> Process:
    effects.xid(world, row, code)
    yield from ()


def _serve(world: FleetState, *, job: FleetJob, tide: float, zero: float) -> Process:
    """Busy and idle minutes, by the hour of the day: two humps."""
    (node,) = job.nodes
    work = world.work
    while work.jobs[node] is job and world.now_s < job.end_s:
        hump = 0.5 - 0.5 * math.cos(4 * math.pi * world.now_s / DAY)
        busy = (1 - zero) * (1 / tide + (1 - 1 / tide) * hump)
        if work.mode[node] in (RUNS, STARVES):
            work.mode[node] = RUNS if world.rng.random() < busy else STARVES
        yield MINUTE


def _experts(world: FleetState, *, job: FleetJob, spread: float, drift_s: float) -> Process:
    """The load of each node drifts with the tokens that its experts get."""
    nodes, work = list(job.nodes), world.work
    x, keep = world.rng.standard_normal(len(nodes)), math.exp(-MINUTE / drift_s)
    while all(work.jobs[node] is job for node in nodes):
        fresh = world.rng.standard_normal(len(nodes))
        x = keep * x + math.sqrt(1 - keep**2) * fresh
        work.imbalance[nodes] = np.clip(1 + spread * x, 0.5, 1.5)
        yield MINUTE
    work.imbalance[nodes] = 1.0


def _cap(world: FleetState, *, nodes: range, keeps: float, lasts: float) -> Process:
    """The site lowers the limit of a rack, within a minute, and raises it again."""
    rows = np.array([node * GPUS + slot for node in nodes for slot in range(GPUS)])
    for share in (keeps, 1.0):
        for row in rows.tolist():
            watts = float(world.gpus.limit_max_w[row]) * share
            effects.limit(world, row, watts)
            asked = float(int(watts * 1000))
            world.gpu_columns.set_gauge("power_limit_requested_milliwatts", asked, row)
        if share < 1:
            yield lasts


def _reloads(plan: Plan) -> None:
    """The driver is replaced on a share of the nodes at once; their jobs end before."""
    at = plan.on_grid(float(plan.rng.uniform(2 * HOUR, plan.end_s - HOUR)))
    for node in range(plan.topology.nodes):
        if plan.rng.random() < plan.draw("reload_wave"):
            plan.kill(plan.job(node, at), at - 2 * MINUTE)
            plan.drain(node, at - 2 * MINUTE, at + operations.UPGRADE_S + MINUTE)
            order = [int(i) for i in plan.rng.permutation(GPUS)]
            act = partial(
                operations.reload_driver, node=node, order=order, lasts=operations.UPGRADE_S
            )
            plan.inject(at, act)
