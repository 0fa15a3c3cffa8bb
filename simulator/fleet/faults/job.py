"""Jobs that stand still: a collective that never ends, hosts that do not feed their
GPUs, and two faults at once.
"""

from __future__ import annotations

from functools import partial

from pipeline.finding import Severity
from simulator.fleet.demand import RUNS, SPINS, STARVES
from simulator.fleet.faults.straggler import slow
from simulator.fleet.faults.throttle import brake_node
from simulator.fleet.plan import Plan, TopologyNode
from simulator.fleet.topology import GPUS
from simulator.fleet.world import FleetState, Process

MINUTE, HOUR = 60.0, 3600.0
SETTLED_S = 45 * MINUTE  # of work, and a save: then a job has shown how long its pauses are


def spin(plan: Plan) -> None:
    """F25: one rank is dead, all others wait for it in a collective; the watchdog
    ends the job after a while.
    """
    for case in plan.cases():
        lasts, gone = plan.draw("watchdog_minutes") * MINUTE, bool(plan.rng.random() < 0.5)
        if place := plan.place(
            lasts, needs_s=lasts, lead_s=SETTLED_S, stays_s=lasts, kills_s=lasts,
            fits=partial(_settled, plan, gone),
        ):  # fmt: skip
            job = place.job
            assert job is not None  # noqa: S101 - busy places have one
            plan.truth(case, plan.topology.gpus[place.gpu], place.onset_s, place.onset_s + lasts)
            plan.inject(place.onset_s, partial(_spin, gpu=place.gpu, gone=gone, lasts=lasts))
            plan.kill(job, place.onset_s + lasts)


def starve(plan: Plan) -> None:
    """F26: no data: one node's loader hangs and the others wait for it, or the file system
    hangs and all of them idle. One that begins within a save is a ticket.
    """
    for case in plan.cases():
        lasts = plan.draw("minutes") * MINUTE
        if place := plan.place(
            lasts, needs_s=lasts, nodes=2, lead_s=SETTLED_S, stays_s=lasts, fits=plan.has_saved
        ):
            job = place.job
            assert job is not None  # noqa: S101 - busy places have one
            everybody, end = case.number % 2 == 1, place.onset_s + lasts
            severity: Severity = "ticket" if plan.saves(place) else "page"
            if everybody:
                members = tuple(plan.topology.node_devices[node] for node in job.nodes)
                plan.truth(
                    case, job.id, place.onset_s, end, kind="job", members=members,
                    severity=severity,
                )  # fmt: skip
            else:
                gpus = plan.topology.gpus[place.node * GPUS : (place.node + 1) * GPUS]
                plan.truth(
                    case, plan.topology.node_devices[place.node], place.onset_s, end, members=gpus,
                    severity=severity,
                )  # fmt: skip
            plan.inject(
                place.onset_s, partial(_starve, node=place.node, everybody=everybody, lasts=lasts)
            )


def _settled(plan: Plan, gone: bool, place: TopologyNode) -> bool:
    """Whether the stall looks like no save of the job: a process that is gone saves nothing."""
    return gone or (plan.has_saved(place) and not plan.saves(place))


def together(plan: Plan) -> None:
    """F32: a slow GPU and a braked node in one job; a slow GPU from the middle of a checkpoint on;
    one from before its job's start.
    """
    for case in plan.cases():
        what, lasts = case.number % 3, plan.draw("hours") * HOUR
        at_start = what == 2
        place = plan.place(
            lasts,
            needs_s=HOUR,
            nodes=2,
            lead_s=0.0 if at_start else HOUR,
            stays_s=HOUR,
            warm_s=12 * HOUR if at_start else HOUR * 1.5,
            fits=_just_started if at_start else None,
        )
        if place is None:
            continue
        job = place.job
        assert job is not None  # noqa: S101 - busy places have one
        onset = place.onset_s
        if what == 1:
            onset = plan.on_grid(_next_checkpoint(place))
        elif at_start:
            onset = plan.on_grid(job.start_s)
        gpu, end = plan.topology.gpus[place.gpu], onset + lasts
        if at_start:
            plan.truth(
                case,
                gpu,
                onset,
                end,
                evident_s=job.train_s,
                detect_by_s=40 * MINUTE,
                severity="ticket",
            )
        else:
            plan.truth(case, gpu, onset, end, suffix="/slow")
        plan.inject(onset, partial(slow, gpu=place.gpu, loss=case.magnitude, lasts=lasts))
        if what == 0:
            other = next(node for node in job.nodes if node != place.node)
            gpus = list(range(other * GPUS, (other + 1) * GPUS))
            members = tuple(plan.topology.gpus[row] for row in gpus)
            later = plan.on_grid(onset + plan.draw("apart_s"))
            plan.truth(
                case,
                plan.topology.node_devices[other],
                later,
                later + HOUR,
                kind="node",
                fault="throttle",
                detect_by_s=5 * MINUTE,
                members=members,
                suffix="/brake",
            )
            plan.inject(later, partial(brake_node, gpus=gpus, duty=0.2, lasts=HOUR))


def _just_started(place: TopologyNode) -> bool:
    return place.job is not None and place.onset_s - place.job.train_s < HOUR


def _next_checkpoint(place: TopologyNode) -> float:
    """The middle of the first checkpoint after a time."""
    assert place.job is not None  # noqa: S101 - busy places have one
    work, trained = place.job.work, place.onset_s - place.job.train_s
    number = int(trained // work.checkpoint_every_s) + 1
    return place.job.train_s + number * work.checkpoint_every_s - work.checkpoint_s / 2


def _spin(world: FleetState, *, gpu: int, gone: bool, lasts: float) -> Process:
    job = world.job_of(gpu)
    if job is None:
        return
    nodes = list(job.nodes)
    world.work.mode[nodes] = SPINS
    world.gpus.dead[gpu] = True
    world.gpus.processless[gpu] = gone
    yield lasts
    world.gpus.dead[gpu] = world.gpus.processless[gpu] = False
    for node in nodes:
        if world.work.jobs[node] is job:
            world.work.mode[node] = RUNS


def _starve(world: FleetState, *, node: int, everybody: bool, lasts: float) -> Process:
    job = world.work.jobs[node]
    if job is None:
        return
    nodes = list(job.nodes)
    world.work.mode[nodes] = STARVES if everybody else SPINS
    world.work.mode[node] = STARVES
    yield lasts
    for each in nodes:
        if world.work.jobs[each] is job:
            world.work.mode[each] = RUNS
