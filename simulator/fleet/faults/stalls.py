"""Stalls of jobs whose healthy pauses look alike: they save to slow storage, evaluate on one rank
and wait for their loader (healthy/storage.py).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from simulator.fleet import effects
from simulator.fleet.demand import CRAWLS, SPINS, STARVES
from simulator.fleet.healthy.storage import MIN_WORK_S, Habits, habits_of, pauses_of
from simulator.fleet.jobs import FleetJob
from simulator.fleet.pauses import Pause, pause, rows_of
from simulator.fleet.plan import Case, Plan, TopologyNode
from simulator.fleet.world import FleetState, Process

MINUTE, HOUR = 60.0, 3600.0
SETTLED_S = 75 * MINUTE
HARD_BY_S, ALL_BY_S = 5 * MINUTE, 15 * MINUTE
REPORTED_XID = 119

Pauses = dict[str, list[Pause]]


def stuck(plan: Plan) -> None:
    """F50: one rank's process is gone; a GPU has an XID; all wait for a message that was lost; one
    rank stands still, which no reading distinguishes from a save until it is overdue.
    """
    for case, place, lasts, site in _cases(plan, nodes=1):
        job, what = _job(place), case.number % 4
        gpu = plan.topology.gpus[place.gpu]
        stall = Pause(place.onset_s, lasts, SPINS, idle=(place.gpu,), load=site.load)
        if what == 2:
            stall = replace(stall, idle=())
            plan.truth(
                case, job.id, place.onset_s, stall.end_s, kind="job", detect_by_s=ALL_BY_S,
                members=tuple(plan.topology.gpus[row] for row in rows_of(job)),
            )  # fmt: skip
        elif what == 3:
            plan.truth(case, gpu, place.onset_s, stall.end_s, severity="ticket")
        else:
            plan.truth(case, gpu, place.onset_s, stall.end_s, detect_by_s=HARD_BY_S)
        plan.inject(place.onset_s, partial(pause, job=job, what=stall))
        if what < 2:
            sign = (_gone, _xid)[what]
            plan.inject(place.onset_s, partial(sign, gpu=place.gpu, lasts=lasts))


def loops(plan: Plan) -> None:
    """F51: one rank computes for ever and all others wait for it."""
    for case, place, lasts, site in _cases(plan, nodes=1):
        stall = Pause(place.onset_s, lasts, SPINS, alone=(place.gpu,), load=site.load)
        plan.truth(case, plan.topology.gpus[place.gpu], place.onset_s, stall.end_s)
        plan.inject(place.onset_s, partial(pause, job=_job(place), what=stall))


def crawls(plan: Plan) -> None:
    """F52: a job goes on at a twentieth of its speed."""
    for case, place, lasts, _ in _cases(plan, nodes=1):
        job = _job(place)
        stall = Pause(place.onset_s, lasts, CRAWLS, speed=plan.draw("speed"))
        members = tuple(plan.topology.gpus[row] for row in rows_of(job))
        plan.truth(case, job.id, place.onset_s, stall.end_s, kind="job", members=members)
        plan.inject(place.onset_s, partial(pause, job=job, what=stall))


def loader(plan: Plan) -> None:
    """F53: the loader of a job on one node stands still."""
    for case, place, lasts, _ in _cases(plan, nodes=1, most=1):
        job = _job(place)
        stall = Pause(place.onset_s, lasts, STARVES, load=0.02)
        members = tuple(plan.topology.gpus[row] for row in rows_of(job))
        node = plan.topology.node_devices[place.node]
        plan.truth(case, node, place.onset_s, stall.end_s, members=members)
        plan.inject(place.onset_s, partial(pause, job=job, what=stall))


def _cases(plan: Plan, *, nodes: int, most: int = 1 << 20) -> list[_Case]:
    """Where and when each case strikes: a job that is at work then, whose healthy pauses before are
    as they would be, and end when it strikes.
    """
    site = habits_of(plan)
    pauses: Pauses = {job.id: pauses_of(plan, job, site) for job in plan.topology.jobs}
    found, struck = [], {}
    for case in plan.cases():
        lasts = plan.draw("minutes") * MINUTE
        place = plan.place(
            lasts, needs_s=lasts, nodes=nodes, lead_s=SETTLED_S, stays_s=lasts, kills_s=lasts,
            fits=partial(_at_work, pauses=pauses, most=most),
        )  # fmt: skip
        if place is not None:
            found.append((case, place, lasts, site))
            struck[_job(place).id] = place.onset_s
            plan.kill(_job(place), place.onset_s + lasts)  # nobody waits longer
    for job in plan.topology.jobs:
        for what in pauses[job.id]:
            if what.at_s < struck.get(job.id, plan.end_s):
                plan.inject(what.at_s, partial(pause, job=job, what=what))
    return found


_Case = tuple[Case, TopologyNode, float, Habits]


def _at_work(place: TopologyNode, *, pauses: Pauses, most: int) -> bool:
    job = place.job
    return (
        job is not None
        and len(job.nodes) <= most
        and not any(
            one.at_s - MIN_WORK_S <= place.onset_s <= one.end_s + MIN_WORK_S
            for one in pauses[job.id]
        )
    )


def _job(place: TopologyNode) -> FleetJob:
    assert place.job is not None  # noqa: S101 - busy places have one
    return place.job


def _gone(world: FleetState, *, gpu: int, lasts: float) -> Process:
    world.gpus.processless[gpu] = True
    yield lasts
    world.gpus.processless[gpu] = False


def _xid(world: FleetState, *, gpu: int, lasts: float) -> Process:
    effects.xid(world, gpu, REPORTED_XID)
    yield lasts
