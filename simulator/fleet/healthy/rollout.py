"""A driver that is rolled out in waves: the site learns what a new version does to clocks and power
on the first nodes, then on more.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from pipeline.observation import Value
from simulator.fleet import effects, repair
from simulator.fleet.events import JOBS
from simulator.fleet.plan import Plan
from simulator.fleet.topology import GPUS
from simulator.fleet.world import FleetState, Process

MINUTE, HOUR = 60.0, 3600.0
NEW_DRIVER = "595.45.04"  # of the next branch after that of the profiles
STAGGER_S = 10 * MINUTE  # between two nodes of a wave: the image is fetched and built
# A driver's governor does not do the same to each piece of silicon: of its effect, sd.
UNEVEN = 0.1
FIRST_AT_S = 30 * HOUR  # detectors have learnt what was usual


def rolled_out(plan: Plan) -> None:
    """H48: waves that double in size; jobs are cancelled, the node is drained, the driver unloaded
    and the node booted. Every second wave is announced.
    """
    waves, nodes = plan.pick("waves"), plan.topology.nodes
    slower, draws = plan.draw("slower"), plan.draw("draws")
    edges = np.cumsum(2.0 ** np.arange(waves))
    edges = np.ceil(edges / edges[-1] * nodes).astype(int)
    order, at, done = plan.rng.permutation(nodes), FIRST_AT_S, 0
    for wave, end in enumerate(edges.tolist()):
        for number, node in enumerate(order[done:end].tolist()):
            begins = plan.on_grid(at + number * STAGGER_S)
            if begins > plan.end_s - 2 * HOUR:
                return
            _drain(plan, node, begins)
            act = partial(
                _new_driver, node=node, slower=slower, draws=draws, announced=wave % 2 == 0
            )
            plan.inject(begins, act)
        done, at = end, at + plan.draw("hours_between") * HOUR


def _drain(plan: Plan, node: int, at_s: float) -> None:
    job = plan.job(node, at_s)
    if job is not None:
        job.end_s = min(job.end_s, max(at_s - 2 * MINUTE, job.start_s + 1))
        job.outcome = "cancelled"
    plan.drain(node, at_s - 2 * MINUTE, at_s + HOUR)


def _new_driver(
    world: FleetState, *, node: int, slower: float, draws: float, announced: bool
) -> Process:
    if announced:
        facts: dict[str, Value] = {"reason": f"driver {NEW_DRIVER}", "seconds": 3600}
        world.tell_node(JOBS, node, "maintenance_started", facts)
        yield MINUTE
    repair.power(world, node, on=False)
    yield repair.BOOT_S
    repair.reboot(world, node)
    rows = slice(node * GPUS, (node + 1) * GPUS)
    uneven = 1 + UNEVEN * world.rng.standard_normal((2, GPUS))
    world.gpus.clock_knob[rows] *= 1 - slower * uneven[0]
    world.gpus.power_knob[rows] *= 1 + draws * uneven[1]
    for gpu in range(node * GPUS, (node + 1) * GPUS):
        effects.describe(world, gpu, driver_version=NEW_DRIVER)
    repair.power(world, node, on=True)
    if announced:
        yield 10 * MINUTE
        world.tell_node(JOBS, node, "maintenance_ended")
