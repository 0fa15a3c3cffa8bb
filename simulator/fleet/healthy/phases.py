"""Jobs whose phases differ from training and saving: reinforcement learning, saves in two parts,
waits of all ranks, a debugger.

Ranges: rollouts take 50 to 95 % of a step of reinforcement learning of 20 s to 40 minutes, whose
last 5 to 20 % keep few GPUs busy; data are copied out of device memory before they are written.
"""

from __future__ import annotations

from functools import partial

from simulator.fleet.demand import CRAWLS, SAVES, SPINS, STARVES
from simulator.fleet.healthy.storage import MAX_SAVE_S
from simulator.fleet.jobs import FleetJob
from simulator.fleet.pauses import Pause, pause, rows_of
from simulator.fleet.plan import Plan

MINUTE, HOUR = 60.0, 3600.0
NEXT_S = 0.01  # two parts of one pause follow within a reading
FEW = 8  # one GPU of so many is busy at the end of a rollout


def phases(plan: Plan) -> None:
    """H42: each job has one habit, some of them are halted by a debugger once."""
    for job in list(plan.topology.jobs):
        kind = int(plan.rng.integers(4))
        job.user, job.name = f"user{int(plan.rng.integers(6))}", f"phases{kind}"
        parts = (_rollouts, _two_parts, _all_wait, _streams)[kind](plan, job)
        if plan.rng.random() < plan.draw("halted_share"):
            parts = [*parts, *_halt(plan, job)]
        free = job.train_s + MINUTE
        for one in sorted(parts, key=lambda part: part.at_s):
            if free <= one.at_s and one.end_s + plan.step_s < job.end_s:
                plan.inject(one.at_s, partial(pause, job=job, what=one))
                free = one.end_s


def _rollouts(plan: Plan, job: FleetJob) -> list[Pause]:
    """Generation at low activity, then a tail in which one GPU of eight is busy and others idle."""
    rng, rows, at = plan.rng, rows_of(job), job.train_s + 5 * MINUTE
    cycle, share = plan.draw("cycle_minutes") * MINUTE, plan.draw("rollout_share")
    parts: list[Pause] = []
    while at < job.end_s:
        lasts = cycle * share * float(rng.uniform(0.8, 1.2))
        tail = lasts * float(rng.uniform(0.05, 0.2))
        parts.append(Pause(at, lasts - tail, CRAWLS, speed=float(rng.uniform(0.2, 0.4))))
        few = tuple(rows[int(rng.integers(FEW)) :: FEW])
        parts.append(Pause(parts[-1].end_s + NEXT_S, tail, STARVES, alone=few, load=0.02))
        at = parts[-1].end_s + cycle * (1 - share)
    return parts


def _two_parts(plan: Plan, job: FleetJob) -> list[Pause]:
    """All copy to the host, then rank 0 writes while the others spin; now and then much longer."""
    rng, every = plan.rng, plan.draw("every_minutes") * MINUTE
    at, stall, parts = job.train_s + every, plan.draw("stall_s"), list[Pause]()
    while at < job.end_s:
        parts.append(Pause(at, float(rng.uniform(20, 120)), SAVES))
        lasts = stall * float(rng.uniform(1, 2)) * (10.0 if rng.random() < 0.05 else 1.0)
        lasts = min(lasts, MAX_SAVE_S)
        parts.append(Pause(parts[-1].end_s + NEXT_S, lasts, SPINS, idle=(rows_of(job)[0],)))
        at = parts[-1].end_s + every
    return parts


def _all_wait(plan: Plan, job: FleetJob) -> list[Pause]:
    """All ranks spin for something outside of the job, for less than the watchdog allows."""
    rng, every = plan.rng, plan.draw("every_minutes") * MINUTE
    at, parts = job.train_s + every, list[Pause]()
    while at < job.end_s:
        parts.append(Pause(at, float(rng.uniform(10, 590)), SPINS, load=0.1))
        at = parts[-1].end_s + every
    return parts


def _streams(plan: Plan, job: FleetJob) -> list[Pause]:
    """All ranks write while their bytes cross PCIe."""
    rng, every = plan.rng, plan.draw("every_minutes") * MINUTE
    at, stall, parts = job.train_s + every, plan.draw("stall_s"), list[Pause]()
    while at < job.end_s:
        parts.append(Pause(at, stall * float(rng.uniform(1, 2)), SAVES))
        at = parts[-1].end_s + every
    return parts


def _halt(plan: Plan, job: FleetJob) -> list[Pause]:
    """A debugger halts one rank and the others wait for it."""
    at = float(plan.rng.uniform(job.train_s, max(job.end_s - HOUR, job.train_s + 1)))
    row = int(plan.rng.choice(rows_of(job)))
    return [Pause(at, plan.draw("halt_minutes") * MINUTE, SPINS, idle=(row,))]
