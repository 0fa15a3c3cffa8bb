"""Jobs that save to slow storage, evaluate on one rank, wait for their loader: healthy pauses in
which nobody computes, or one rank does.

Ranges: Llama 3 herd of models, section 3.3 (checkpoints of 60 to 180 s); worlds of other sites have
stalls of 0.5 to 2,400 s that differ by up to a factor of 6 from save to save, written by rank 0, by
one rank per node or group, or by all; the first is the longest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

from simulator.fleet.demand import SAVES, SPINS, STARVES
from simulator.fleet.jobs import FleetJob
from simulator.fleet.pauses import Pause, pause, rows_of
from simulator.fleet.plan import Plan
from simulator.fleet.topology import GPUS

MINUTE, HOUR = 60.0, 3600.0
RANK_0, BARRIER, PER_NODE, PER_GROUP, CHANGING = range(5)
GROUP = 2  # nodes of a data-parallel group
JOB_SPREAD, OTHER_WRITERS = 0.4, 0.3  # of ln seconds between jobs of a site; share of jobs
MAX_SAVE_S = 6000.0  # the longest that was published (Greyhound, ATC'25)
MIN_WORK_S = 60.0  # between two pauses
LOADER_S, LOADER_SPREAD = 3.0, 1.6  # log-normal: median 3 s, 99th percentile 120 s
COPY_S = (5.0, 30.0)  # of device memory to the host, while all ranks wait
NAMES = ("pretrain", "finetune", "align", "distill", "probe")


@dataclass(frozen=True, slots=True)
class Habits:
    """How a job saves: seconds of a usual save and between two, how they vary, who writes."""

    stall_s: float
    every_s: float
    varies: float
    first: float
    writers: int
    moves: bool  # all ranks copy to the host and go on: nobody waits for storage
    load: float


def storage(plan: Plan) -> None:
    """H40: checkpoints to storage that is slow, evaluations on one rank, loaders that stall."""
    site = habits_of(plan)
    for job in list(plan.topology.jobs):
        for what in pauses_of(plan, job, site):
            plan.inject(what.at_s, partial(pause, job=job, what=what))


def pauses_of(plan: Plan, job: FleetJob, site: Habits) -> list[Pause]:
    """All pauses of a job, none of which overlap."""
    rng = plan.rng
    job.user, job.name = f"user{int(rng.integers(6))}", str(rng.choice(NAMES))
    habits = _of_job(plan, site)
    wanted = [*_saves(plan, job, habits), *_evaluations(plan, job, habits), *_loader(plan, job)]
    dump = plan.draw("dump_share") > rng.random()
    if dump:  # the whole model, once, at the end
        lasts = plan.draw("dump_minutes") * MINUTE
        idle = (rows_of(job)[0],)
        wanted.append(
            Pause(job.end_s - lasts - 2 * MINUTE, lasts, SPINS, idle=idle, load=habits.load)
        )
    chosen: list[Pause] = []
    for one in sorted(wanted, key=lambda what: what.at_s):
        free = chosen[-1].end_s + MIN_WORK_S if chosen else job.train_s + MIN_WORK_S
        if free <= one.at_s and one.end_s + plan.step_s < job.end_s:
            chosen.append(one)
    return chosen


def habits_of(plan: Plan) -> Habits:
    """What the site's storage and framework make of saves; its jobs differ somewhat."""
    rng = plan.rng
    return Habits(
        plan.draw("stall_s"),
        plan.draw("every_minutes") * MINUTE,
        plan.draw("varies"),
        plan.draw("first"),
        plan.pick("writers"),
        bool(rng.random() < plan.draw("moving_share")),
        plan.draw("spin_load"),
    )


def _of_job(plan: Plan, site: Habits) -> Habits:
    rng, other = plan.rng, habits_of(plan)
    return replace(
        site,
        stall_s=site.stall_s * math.exp(JOB_SPREAD * float(rng.standard_normal())),
        every_s=other.every_s,
        writers=other.writers if rng.random() < OTHER_WRITERS else site.writers,
        moves=other.moves,
    )


def _saves(plan: Plan, job: FleetJob, habits: Habits) -> list[Pause]:
    """Saves at even distances of work; the first takes longest."""
    rng, at = plan.rng, job.train_s + habits.every_s
    saves: list[Pause] = []
    while at < job.end_s:
        lasts = habits.stall_s * math.exp(rng.uniform(0, math.log(max(habits.varies, 1.0))))
        lasts = min(lasts * (habits.first if not saves else 1.0), MAX_SAVE_S)
        if habits.moves:
            saves.append(Pause(at, float(rng.uniform(*COPY_S)), SAVES))
        else:
            mode = STARVES if habits.writers == BARRIER else SPINS
            idle = _writers(plan, job, habits.writers)
            saves.append(Pause(at, lasts, mode, idle=idle, load=habits.load))
        at += habits.every_s + saves[-1].lasts_s
    return saves


def _writers(plan: Plan, job: FleetJob, writers: int) -> tuple[int, ...]:
    """Rows of the GPUs whose ranks write."""
    rows = rows_of(job)
    if writers == PER_NODE:
        return tuple(rows[::GPUS])
    if writers == PER_GROUP:
        return tuple(rows[:: GPUS * GROUP])
    if writers == CHANGING:
        return (int(plan.rng.choice(rows)),)
    return (rows[0],) if writers == RANK_0 else ()


def _evaluations(plan: Plan, job: FleetJob, habits: Habits) -> list[Pause]:
    """Rank 0 evaluates and the others wait, in some of the jobs."""
    rng = plan.rng
    found: list[Pause] = []
    if rng.random() < plan.draw("evaluating_share"):
        at, every = job.train_s, plan.draw("evaluation_hours") * HOUR
        while (at := at + every) < job.end_s:
            lasts = plan.draw("evaluation_minutes") * MINUTE
            found.append(Pause(at, lasts, SPINS, alone=(rows_of(job)[0],), load=habits.load))
    return found


def _loader(plan: Plan, job: FleetJob) -> list[Pause]:
    """All GPUs idle while their loader waits for data."""
    rng, at = plan.rng, job.train_s
    found: list[Pause] = []
    every = plan.draw("loader_hours") * HOUR
    while (at := at + float(rng.exponential(every))) < job.end_s:
        lasts = LOADER_S * math.exp(LOADER_SPREAD * float(rng.standard_normal()))
        found.append(Pause(at, min(lasts, 10 * MINUTE), STARVES, load=0.02))
    return found
