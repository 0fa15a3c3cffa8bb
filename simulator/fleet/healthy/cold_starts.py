"""Jobs that start on GPUs that have been idle for hours, whatever cools them: cold plates that
follow within seconds, heat sinks that take minutes, fans that lag, and rooms in which the steady
state is a few kelvins under the limit.

Ranges: time constants of cold plates 3 to 20 s, of heat sinks 20 to 150 s; fans that follow within
ten seconds, or after a minute where a controller of the chassis polls its sensors.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from simulator.fleet.gpus import FleetGpus, Floats
from simulator.fleet.jobs import FleetJob
from simulator.fleet.plan import Plan
from simulator.fleet.topology import GPUS
from simulator.fleet.world import FleetState, Process

# What leakage, the silicon's luck in another job and the room add to what is expected: without it
# the driver slows some GPUs down, which is then no healthy world.
OTHERS_K = 4.0


def cold_starts(plan: Plan) -> None:
    """H50: each node has a cooler of its own."""
    for node in range(plan.topology.nodes):
        sink_s, left_k = plan.draw("sink_s"), plan.draw("left_k")
        lag_s, slow = plan.draw("lag_s"), plan.draw("slow_fans")
        jobs = [job for job in plan.topology.jobs if node in job.nodes]
        if jobs:
            hardest = max(jobs, key=lambda job: job.work.load * (1 - job.work.communication))
            plan.inject(0.0, partial(_cool, node=node, sink_s=sink_s, left_k=left_k, job=hardest))
        for job in jobs:
            plan.inject(
                job.train_s, partial(_lag, node=node, lag_s=lag_s, slow=slow, left_k=left_k)
            )


def _of(node: int) -> slice:
    return slice(GPUS * node, GPUS * (node + 1))


def _cool(world: FleetState, *, node: int, sink_s: float, left_k: float, job: FleetJob) -> Process:
    """Of a node: the hottest GPU settles so far below its limit in its hardest job."""
    gpus, rows = world.gpus, _of(node)
    gpus.tau_s[rows] = sink_s
    still, heat = _expected(gpus, node, job)
    room = _most(gpus, node, job) - left_k - still
    gpus.cooling[rows] = float(np.min(room / heat))
    yield from ()


def _most(gpus: FleetGpus, node: int, job: FleetJob) -> Floats:
    """What each GPU of a node may be expected to settle at in a job, C, (GPU,)."""
    return gpus.coolest_limit_c(job.work.dram)[_of(node)] - OTHERS_K


def _expected(gpus: FleetGpus, node: int, job: FleetJob) -> tuple[Floats, Floats]:
    """The air of each GPU of a node, C, and what the job's power makes of it, K, both (GPU,)."""
    rows = range(GPUS * node, GPUS * (node + 1))
    load, waits = job.work.load, job.work.communication
    once = np.array([gpus.expected_c(row, load, waits) for row in rows])
    gpus.cooling[_of(node)] *= 2
    twice = np.array([gpus.expected_c(row, load, waits) for row in rows])
    gpus.cooling[_of(node)] /= 2
    return 2 * once - twice, twice - once


def _lag(world: FleetState, *, node: int, lag_s: float, slow: float, left_k: float) -> Process:
    """Fans still turn as for an idle node: by as much slower as is safe for so long."""
    gpus, rows = world.gpus, _of(node)
    job = world.job_of(rows.start)
    if job is None:
        return
    still, heat = _expected(gpus, node, job)
    tau_s, most = float(gpus.tau_s[rows.start]), _most(gpus, node, job) - left_k
    while slow > 1.0:
        lasts = 1 - math.exp(-(lag_s + world.step_s) / (tau_s * slow))
        if np.all(still + slow * heat * lasts <= most):
            break
        slow = max(slow - 0.05, 1.0)
    gpus.cooling[rows] *= slow
    gpus.tau_s[rows] *= slow
    yield lag_s
    gpus.cooling[rows] /= slow
    gpus.tau_s[rows] /= slow
