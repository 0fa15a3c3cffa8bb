"""One fleet in which faults of every scenario happen: each scenario plans its own cases, and no two
strike the same node or job within two hours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

import numpy as np

from simulator.fleet.faults import FAULTS
from simulator.fleet.jobs import schedule
from simulator.fleet.models import others
from simulator.fleet.plan import Draws, Plan
from simulator.fleet.run import BEGIN_NS, PROFILE, Run
from simulator.fleet.scenario import Scenario, load_scenario
from simulator.fleet.settings import Settings
from simulator.fleet.topology import Topology
from simulator.fleet.world import FleetState, Process
from simulator.profile import load_profile

# Leaf switches and racks need all of their nodes free, so they are planned first; then what takes a
# node for most of the day, and jobs that must have shown how they pause; and what few jobs suit.
FIRST = (
    *("F24", "F70", "F71", "F72", "F12", "F54"),
    *("F50", "F51", "F52", "F53"),
    *("F47", "F42", "F43"),
    *("F01", "F02", "F04", "F05", "F19", "F20", "F21"),
)
EVERYWHERE = "F24"  # a rail of the whole fleet is congested: it would leave no room for others
NAMELESS = "F71"  # of its ports nobody knows the leaf switch
# What does not fit into a day of some nodes: a world of its own has room for it.
LEFT_OUT = {
    "F74": "a leaf switch of a thousand nodes: in fewer it is F70",
    "F10": "what a cold plate did before is learnt in days",
    "F11": "paste ages for days",
    "F56": "reports of NCCL are looks five seconds apart",
    "F31": "six faults of one node in a month",
    "F48": "a tail is distinguished from an afternoon after more than a day",
    "F86": "a roll-out takes all nodes of a model",
    "F87": "a roll-out takes all racks",
    "F88": "a device has to differ for a day",
}
APART_S = 1800.0  # incidents within ten minutes may be one; an hour or two are for scores
# Jobs short and small enough that there is a place for each scenario.
WORLD = Settings(
    job_gpus=24.0,
    job_gpus_sigma=0.6,
    job_hours_low=4.0,
    job_hours_high=24.0,
    pod_nodes=8,
    twins="no",
    models=3.0,
)


@dataclass(frozen=True, slots=True)
class Pace:
    """``nodes`` are read every ``seconds``; where ``hours`` are given, in these of the run only."""

    nodes: Sequence[int]
    seconds: float
    hours: tuple[float, float] | None = None


def every_fault(
    seed: int,
    *,
    nodes: int = 64,
    days: float = 1.0,
    step_s: float = 15.0,
    cases: int = 1,
    names: Sequence[str] = (),
    paces: Sequence[Pace] = (),
    settings: Settings = WORLD,
    ranges: Mapping[str, Mapping[str, tuple[float, float]]] = MappingProxyType({}),
) -> tuple[Run, dict[str, str]]:
    """Its run, and why a scenario is not in it, by its id. ``cases`` of each of the scenarios
    ``names`` (default all but those that need more than a day), as far as there is room.
    ``step_s``: seconds between two readings of a node that is in none of ``paces``, which are
    multiples of it. ``settings`` are the fleet's, and ``ranges`` those of parameters of scenarios
    that are to be drawn from others than their own.
    """
    world = replace(settings, pod_nodes=min(settings.pod_nodes, nodes))
    scenario = Scenario(
        "every", "fault", "together", "Faults of every scenario.", nodes, days, "fleet", world=world
    )
    queue, plans, state = np.random.SeedSequence([abs(seed), int(seed < 0)]).spawn(3)
    jobs = schedule(np.random.default_rng(queue), world, nodes, days * 86400)
    topology = Topology(
        load_profile(PROFILE),
        nodes,
        seed,
        BEGIN_NS,
        jobs,
        others(round(world.models) - 1),
        world.pod_nodes,
        in_blocks=True,
    )
    whole = Plan(scenario, topology, np.random.default_rng(plans), draws=Draws(), step_s=step_s)
    whole.apart_s = APART_S
    wanted = names or (*FIRST, *(name for name in FAULTS if name not in FIRST))
    left_out = {}
    for name in wanted:
        why = "" if names else LEFT_OUT.get(name, "")
        if why := why or _planned(whole, name, cases, ranges.get(name, {})):
            left_out[name] = why
    for pace in paces:
        _paced(whole, pace)
    struck = {
        device.host for one in whole.truths if one.scenario == NAMELESS for device in one.members
    }
    railed = frozenset(node for node, host in enumerate(topology.hosts) if host in struck)
    topology = replace(topology, railed=railed)
    run = Run(
        scenario, seed, "dev", step_s, topology, whole.finished(), 0, tuple(whole.processes), state
    )
    return run, left_out


def _planned(whole: Plan, name: str, cases: int, ranges: Mapping[str, tuple[float, float]]) -> str:
    """Plan the cases of a scenario; why there are none."""
    before, scenario = len(whole.truths), load_scenario(name)
    changed = {key: replace(scenario.parameters[key], dev=ranges[key]) for key in ranges}
    scenario = replace(scenario, cases=cases, parameters={**scenario.parameters, **changed})
    plan = whole.of(scenario, claims=name != EVERYWHERE)
    try:
        FAULTS[name](plan)
    except ValueError as error:
        return f"too short: {error}"
    return "" if len(whole.truths) > before else "no room"


def _paced(plan: Plan, pace: Pace) -> None:
    every = max(1, round(pace.seconds / plan.step_s))
    begin, end = pace.hours or (0.0, plan.scenario.days * 24)
    plan.inject(
        begin * 3600,
        partial(_read_every, nodes=pace.nodes, every=every, lasts_s=(end - begin) * 3600),
    )


def _read_every(world: FleetState, *, nodes: Sequence[int], every: int, lasts_s: float) -> Process:
    before = world.every[list(nodes)].copy()
    world.every[list(nodes)] = every
    yield lasts_s
    world.every[list(nodes)] = before
