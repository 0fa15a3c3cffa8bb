"""NVLinks whose error correction has more to do at some times than at others: links differ, warm
afternoons, hours with bursts, and steps as a connector settles or a driver trains links again.

Nothing is published about the FEC histories of healthy NVLink 5 fleets; the shapes are those of
the raw bit error ratio of other PAM4 links, the ranges are ours and wide.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from simulator.fleet.plan import Plan
from simulator.fleet.world import FleetState, Process

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
EVERY_S = 10 * MINUTE
EIGHTH = 8  # the bin whose orders of magnitude are meant
TAUS_S = np.array([HOUR, 8 * HOUR])  # of the noise, each with the same variance
Floats = NDArray[np.float64]


def harder_at_times(plan: Plan) -> None:
    """H51, and what F48 is on top of: each GPU's links live so."""
    gpus, rng = len(plan.topology.gpus), plan.rng
    level = rng.normal(0, plan.draw("spread"), gpus)
    tide = rng.uniform(0, plan.draw("tide"), gpus)
    phase = rng.uniform(0, 0.25, gpus) + float(rng.uniform())  # a hall's afternoon is one afternoon
    plan.inject(0.0, partial(_live, level=level, tide=tide, phase=phase, noise=plan.draw("noise")))
    for _ in range(int(rng.poisson(plan.draw("steps_a_week") * gpus * plan.end_s / (7 * DAY)))):
        step = partial(
            _step,
            gpu=int(rng.integers(gpus)),
            orders=plan.draw("step") * float(rng.choice([-1.0, 1.0])),
            lasts=plan.draw("step_hours") * HOUR,
        )
        plan.inject(float(rng.uniform(0, plan.end_s)), step)


def _live(
    world: FleetState, *, level: Floats, tide: Floats, phase: Floats, noise: float
) -> Process:
    """Each bin as full as the level, the time of day, noise and what struck the link make it."""
    state = world.rng.normal(0, noise / math.sqrt(len(TAUS_S)), (len(TAUS_S), len(level)))
    keep = np.exp(-EVERY_S / TAUS_S)[:, None]
    while True:
        fresh = world.rng.normal(0, noise / math.sqrt(len(TAUS_S)), state.shape)
        state = keep * state + np.sqrt(1 - keep**2) * fresh
        day = tide * np.sin(2 * np.pi * (world.now_s / DAY + phase))
        world.fec_knob = 10 ** ((level + day + state.sum(axis=0) + world.fec_orders) / EIGHTH)
        yield EVERY_S


def _step(world: FleetState, *, gpu: int, orders: float, lasts: float) -> Process:
    """A level that is another for a while."""
    world.fec_orders[gpu] += orders
    yield lasts
    world.fec_orders[gpu] -= orders
