"""Pauses of a job that end by themselves, and stalls that do not: which of its GPUs wait, idle,
copy to the host or compute, for how long.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.fleet.demand import CRAWLS, RUNS
from simulator.fleet.jobs import FleetJob
from simulator.fleet.topology import GPUS
from simulator.fleet.world import FleetState, Process

ALONE_LOAD = 0.85  # of a rank that computes while the others of its job wait


@dataclass(frozen=True, slots=True)
class Pause:
    """What a job's nodes do from ``at_s`` on (seconds of the run) for ``lasts_s``.

    ``mode`` is that of all its nodes (demand.py), or of ``nodes`` if some are named, while the
    others spin. Rows of GPUs: ``idle`` do nothing, ``alone`` compute. ``load``: power of those that
    wait, as a share of full load. ``speed`` of jobs that crawl.
    """

    at_s: float
    lasts_s: float
    mode: int
    idle: tuple[int, ...] = ()
    alone: tuple[int, ...] = ()
    load: float = 0.07
    speed: float = 1.0

    @property
    def end_s(self) -> float:
        """When it is over."""
        return self.at_s + self.lasts_s


def rows_of(job: FleetJob) -> list[int]:
    """Rows of the GPUs of a job; its rank 0 comes first."""
    return [node * GPUS + slot for node in job.nodes for slot in range(GPUS)]


def pause(world: FleetState, *, job: FleetJob, what: Pause) -> Process:
    """The job pauses, unless it is over or does so already."""
    work, gpus, nodes, rows = world.work, world.gpus, list(job.nodes), np.array(rows_of(job))
    if any(work.jobs[node] is not job for node in nodes) or (work.mode[nodes] != RUNS).any():
        return
    idle, alone = list(what.idle), list(what.alone)
    work.mode[nodes] = what.mode
    if what.mode == CRAWLS:
        work.speed[nodes] = what.speed
    else:
        gpus.own_load[rows] = what.load
    gpus.dead[idle] = True
    gpus.alone[alone] = True
    gpus.own_load[alone] = ALONE_LOAD
    yield what.lasts_s
    gpus.dead[idle] = gpus.alone[alone] = False
    gpus.own_load[rows] = np.nan
    for node in nodes:
        if work.jobs[node] is job:
            work.mode[node] = RUNS
