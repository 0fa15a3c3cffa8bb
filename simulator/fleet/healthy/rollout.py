"""A driver that is rolled out in waves: the site learns what a new version does to clocks and power
on the first nodes, then on more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pipeline.observation import Value
from simulator.fleet import effects, repair
from simulator.fleet.events import JOBS
from simulator.fleet.plan import Plan
from simulator.fleet.topology import GPUS, RACK
from simulator.fleet.world import FleetState, Process

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
NEW_DRIVER = "595.45.04"  # of the next branch after that of the profiles
STAGGER_S = 10 * MINUTE  # between two nodes of a wave: the image is fetched and built
# A driver's governor does not do the same to each piece of silicon: of its effect, sd.
UNEVEN = 0.1
FIRST_AT_S = 30 * HOUR  # detectors have learnt what was usual


@dataclass(frozen=True, slots=True)
class Change:
    """What new software does to the GPUs of a node: shares of clock (lost) and power (more), factor
    of thermal resistance (a fan curve), sd of its effect over GPUs as a share of it, and corrected
    memory errors of a GPU and day that the software before did not count.
    """

    slower: float
    draws: float
    heat: float = 1.0
    uneven: float = UNEVEN
    corrected: float = 0.0


def rolled_out(plan: Plan) -> None:
    """H48: waves that double in size; jobs are cancelled, the node is drained, the driver unloaded
    and the node booted. Every second wave is announced.
    """
    waves, nodes = plan.pick("waves"), plan.topology.nodes
    change = Change(plan.draw("slower"), plan.draw("draws"))
    edges = np.cumsum(2.0 ** np.arange(waves))
    edges = np.ceil(edges / edges[-1] * nodes).astype(int)
    order = plan.rng.permutation(nodes)
    _roll_out(plan, np.split(order, edges[:-1]), change)


def changes_more(plan: Plan) -> None:
    """H49: driver and firmware at once, which change clocks, power, cooling and what is counted;
    rack by rack, or over the nodes as they come.
    """
    drawn(plan)


def drawn(plan: Plan, *, by_rack: bool = False) -> dict[int, float]:
    """A roll-out with a change that is drawn, half of them a wave per rack, or all; when each node
    was back, s.
    """
    names = ("slower", "draws", "heat", "uneven", "corrected")
    change = Change(*(plan.draw(name) for name in names))
    order, waves = plan.rng.permutation(plan.topology.nodes), plan.pick("waves")
    if plan.rng.random() < 0.5 or by_rack:
        racks = plan.rng.permutation(-(-len(order) // RACK))
        order = np.array(sorted(order.tolist(), key=lambda node: racks[node // RACK]))
        waves = len(racks)
    return _roll_out(plan, np.array_split(order, waves), change)


def _roll_out(plan: Plan, waves: Sequence[NDArray[np.intp]], change: Change) -> dict[int, float]:
    back: dict[int, float] = {}
    at = FIRST_AT_S
    for wave, nodes in enumerate(waves):
        for number, node in enumerate(nodes.tolist()):
            begins = plan.on_grid(at + number * STAGGER_S)
            if begins > plan.end_s - 2 * HOUR:
                return back
            _drain(plan, node, begins)
            act = partial(_new_driver, node=node, change=change, announced=wave % 2 == 0)
            plan.inject(begins, act)
            back[node] = begins + HOUR
        at += plan.draw("hours_between") * HOUR
    return back


def _drain(plan: Plan, node: int, at_s: float) -> None:
    job = plan.job(node, at_s)
    if job is not None:
        job.end_s = min(job.end_s, max(at_s - 2 * MINUTE, job.start_s + 1))
        job.outcome = "cancelled"
    plan.drain(node, at_s - 2 * MINUTE, at_s + HOUR)


def _new_driver(world: FleetState, *, node: int, change: Change, announced: bool) -> Process:
    if announced:
        facts: dict[str, Value] = {"reason": f"driver {NEW_DRIVER}", "seconds": 3600}
        world.tell_node(JOBS, node, "maintenance_started", facts)
        yield MINUTE
    repair.power(world, node, on=False)
    yield repair.BOOT_S
    repair.reboot(world, node)
    rows = slice(node * GPUS, (node + 1) * GPUS)
    uneven = 1 + change.uneven * world.rng.standard_normal((2, GPUS))
    world.gpus.clock_knob[rows] *= 1 - change.slower * uneven[0]
    world.gpus.power_knob[rows] *= 1 + change.draws * uneven[1]
    world.gpus.cooling[rows] *= change.heat
    for gpu in range(node * GPUS, (node + 1) * GPUS):
        effects.describe(world, gpu, driver_version=NEW_DRIVER)
    repair.power(world, node, on=True)
    if announced:
        yield 10 * MINUTE
        world.tell_node(JOBS, node, "maintenance_ended")
    while change.corrected:
        yield float(world.rng.exponential(DAY / change.corrected / GPUS))
        gpu = node * GPUS + int(world.rng.integers(GPUS))
        effects.ecc(world, gpu, corrected=True)
