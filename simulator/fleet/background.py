"""What happens in healthy fleets all the time: single memory errors, and XIDs that
come from users' programs.
"""

from __future__ import annotations

import numpy as np

from simulator.cells import BURSTS_PER_HOUR
from simulator.fleet import effects
from simulator.fleet.world import FleetState, Process

MONTH_S = 30 * 86400.0
BURST = 0.3  # parameter of the geometric size of a burst, as in simulator/cells.py
APPLICATION = (13, 31, 43)


def background(world: FleetState, rng: np.random.Generator) -> None:
    """Let all of it happen."""
    gpus = world.gpus.count
    world.add(0.0, _errors(world, rng, 3600 / (BURSTS_PER_HOUR * gpus)))
    rate = world.scenario.world.app_xids_per_gpu_month * gpus / MONTH_S
    if rate:
        world.add(0.0, _programs(world, rng, 1 / rate))


def _errors(world: FleetState, rng: np.random.Generator, every_s: float) -> Process:
    while True:
        yield rng.exponential(every_s)
        effects.ecc(
            world,
            int(rng.integers(world.gpus.count)),
            corrected=True,
            count=int(rng.geometric(BURST)),
        )


def _programs(world: FleetState, rng: np.random.Generator, every_s: float) -> Process:
    """A user's program fails on one GPU of a job, now and then on several: other GPUs each time."""
    while True:
        yield rng.exponential(every_s)
        gpu, code = int(rng.integers(world.gpus.count)), int(rng.choice(APPLICATION))
        if world.job_of(gpu) is not None:
            gpc, tpc = rng.integers(8), rng.integers(9)
            effects.xid(world, gpu, code, gpc=int(gpc), tpc=int(tpc), sm=int(rng.integers(2)))
