"""Leaf switches that die or lose their uplinks: many nodes lose one rail at once. Agents know the
switch, its rail, or neither: as the site's topology says.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from simulator.fleet import effects
from simulator.fleet.demand import RUNS
from simulator.fleet.plan import Case, Plan
from simulator.fleet.topology import GPUS
from simulator.fleet.world import FleetState, Process

MINUTE, HOUR = 60.0, 3600.0
REBOOT_S = 900.0  # who sees no job stop takes it for a switch that reboots, for so long
MIN_PORTS = 8  # ports
SLOW_BY_S = 1800.0  # of work
APART_S = 1800.0  # between leaves of one rail, where that is all that a site can tell apart


class Leaf(NamedTuple):
    """Where a case strikes: the nodes of a pod, or those of them that it concerns, and the rail."""

    onset: float
    nodes: list[int]
    rail: int

    @property
    def ports(self) -> list[int]:
        """Their rows."""
        return [node * GPUS + self.rail for node in self.nodes]


def dead_leaf(plan: Plan) -> None:
    """F70, F71, F74: a leaf switch, or half of its ports and more, goes down under its jobs.

    Whether one trains at an onset is known when all are placed: another may have ended its job.
    """
    placed: list[tuple[Case, Leaf, float]] = []
    for case in plan.cases():
        lasts, spread = plan.draw("hours") * HOUR, plan.draw("spread_s")
        if place := _leaf(plan, lasts, before=[(one, until) for _, one, until in placed]):
            count = max(MIN_PORTS, round(plan.draw("share") * len(place.nodes)))
            struck = place._replace(nodes=plan.rng.permutation(place.nodes)[:count].tolist())
            late = plan.rng.uniform(0, spread, count).tolist()
            placed.append((case, struck, lasts))
            plan.inject(place.onset, partial(_down, ports=struck.ports, late=late, lasts=lasts))
            for node in struck.nodes:
                kill_s = plan.draw("kill_minutes") * MINUTE
                plan.kill(plan.job(node, place.onset), place.onset + kill_s)
                plan.drain(node, place.onset, place.onset + lasts + MINUTE)
    for case, struck, lasts in placed:
        trains = any(_trains(plan, node, struck.onset) for node in struck.nodes)
        _truth(plan, case, struck, lasts, more_s=0 if trains else REBOOT_S)


def slow_leaf(plan: Plan) -> None:
    """F72: a leaf switch lost uplinks: all its ports carry less, all links are up."""
    for case in plan.cases():
        lasts = plan.draw("hours") * HOUR
        if place := _leaf(plan, lasts, busy=True):
            _truth(plan, case, place, lasts)
            narrow = partial(_narrow, ports=place.ports, share=1 - case.magnitude, lasts=lasts)
            plan.inject(place.onset, narrow)


def _leaf(
    plan: Plan, lasts: float, *, busy: bool = False, before: Sequence[tuple[Leaf, float]] = ()
) -> Leaf | None:
    """A place, None where there is none; ``busy``: all of its nodes train; ``before``: what strikes
    elsewhere, and for how long. Where a site knows rails only, two leaves of one rail that are dead
    at once are one fault to it.
    """
    pod = min(plan.topology.pod, plan.topology.nodes)
    for _ in range(200):
        latest = plan.end_s - min(lasts, SLOW_BY_S) - plan.step_s
        onset = plan.on_grid(float(plan.rng.uniform(5400, max(latest, 5400))))
        first = int(plan.rng.integers(plan.topology.nodes // pod)) * pod
        nodes, rail = list(range(first, first + pod)), int(plan.rng.integers(GPUS))
        if plan.topology.known == "rail" and any(
            one.rail == rail
            and one.onset < onset + lasts + APART_S
            and onset < one.onset + for_s + APART_S
            for one, for_s in before
        ):
            continue
        works = not busy or all(_trains(plan, node, onset, SLOW_BY_S) for node in nodes)
        jobs = {node: plan.job(node, onset) for node in nodes}
        wide = {node for job in jobs.values() if job is not None for node in job.nodes}
        if works and plan.claim([*{*nodes, *wide}], onset, onset + lasts):
            return Leaf(onset, nodes, rail)
    plan.skipped += 1
    return None


def _trains(plan: Plan, node: int, onset: float, until_s: float = 300.0) -> bool:
    job = plan.job(node, onset)
    return job is not None and len(job.nodes) > 1 and job.runs(onset - 600.0, onset + until_s)


def _truth(plan: Plan, case: Case, place: Leaf, lasts: float, more_s: float = 0.0) -> None:
    """Of the switch, or of the rail where that is all that the topology names."""
    topology, rail = plan.topology, place.rail
    verdict = plan.scenario.verdict
    assert verdict is not None  # noqa: S101 - faults have one, the loader holds that
    entity = topology.leaf(place.nodes[0], rail)
    if verdict.entity == "rail":
        model = topology.profile.ports
        entity = str(rail) if topology.known == "rail" else f"{model.devices[rail]}/1"
    plan.truth(
        case,
        entity,
        place.onset,
        place.onset + lasts,
        detect_by_s=verdict.detect_by_s + more_s,
        members=tuple(topology.ports[row] for row in place.ports),
    )


def _down(world: FleetState, *, ports: list[int], late: list[float], lasts: float) -> Process:
    """Each port a little later; the jobs wait for what will not come, until they are killed."""
    now = 0.0
    for at, port in sorted(zip(late, ports, strict=True)):
        yield at - now
        now = at
        effects.link(world, port, up=False)
        effects.stall(world, port)
    stalled = {id(job): job for port in ports if (job := world.job_of(port)) is not None}
    yield max(lasts - now, MINUTE)
    for port in ports:
        effects.link(world, port, up=True)
        job = world.job_of(port)
        if job is not None and id(job) in stalled:
            world.work.mode[list(job.nodes)] = RUNS


def _narrow(world: FleetState, *, ports: list[int], share: float, lasts: float) -> Process:
    world.ports.speed[ports] = share
    world.ports.wait[ports] = effects.CONGESTED_TICKS_PER_S
    yield lasts
    world.ports.speed[ports] = 1.0
    world.ports.wait[ports] = 0.0
