"""Power that is not there: the brake of a chassis that lost a supply, limits set below what they
should be, a regulator that gives less.
"""

from __future__ import annotations

from functools import partial

from simulator.fleet import effects
from simulator.fleet.plan import Plan, TopologyNode
from simulator.fleet.topology import GPUS
from simulator.fleet.world import FleetState, Process

HOUR = 3600.0
# Shares of the dynamic power at full load. The clock of a GPU that is asked for so much more than
# there is is 3 % below its peers' (power goes with its 2.4th power).
OVER_LIMIT, MAX_LOAD = 1.08, 0.97


def brake(plan: Plan) -> None:
    """F14: the power brake pulses on all GPUs of a node, mostly between two readings."""
    for case in plan.cases():
        lasts = plan.draw("minutes") * 60
        if place := plan.place(lasts, needs_s=600.0, stays_s=600.0):
            gpus = list(range(place.node * GPUS, (place.node + 1) * GPUS))
            members = tuple(plan.topology.gpus[gpu] for gpu in gpus)
            plan.truth(
                case,
                plan.topology.node_devices[place.node],
                place.onset_s,
                place.onset_s + lasts,
                members=members,
            )
            plan.inject(
                place.onset_s, partial(brake_node, gpus=gpus, duty=case.magnitude, lasts=lasts)
            )


def low_limit(plan: Plan) -> None:
    """F15: the enforced power limit of a GPU, or of a whole node, is below the default,
    and nobody asked for it.
    """
    watts = plan.topology.profile.gpu.power_limit_w
    for case in plan.cases():
        lasts, whole = plan.draw("hours") * HOUR, case.number % 2 == 1
        if place := plan.place(lasts, needs_s=600.0, busy=False, alone=False):
            peers = list(range(place.node * GPUS, (place.node + 1) * GPUS))
            gpus = peers if whole else [place.gpu]
            devices = tuple(plan.topology.gpus[gpu] for gpu in gpus)
            entity = plan.topology.node_devices[place.node] if whole else devices[0]
            plan.truth(
                case,
                entity,
                place.onset_s,
                place.onset_s + lasts,
                kind="node" if whole else "gpu",
                members=devices if whole else (),
            )
            plan.inject(
                place.onset_s,
                partial(lower, gpus=gpus, watts=watts * (1 - case.magnitude), lasts=lasts),
            )


def weak_regulator(plan: Plan) -> None:
    """F30: one GPU draws less power at the same clock and activity."""
    for case in plan.cases():
        lasts = plan.draw("hours") * HOUR
        if place := plan.place(
            lasts, needs_s=1.2 * HOUR, nodes=2, stays_s=1.2 * HOUR, lead_s=2 * HOUR
        ):
            plan.truth(case, plan.topology.gpus[place.gpu], place.onset_s, place.onset_s + lasts)
            plan.inject(
                place.onset_s, partial(_weak, gpu=place.gpu, less=case.magnitude, lasts=lasts)
            )


def hungry_silicon(plan: Plan) -> None:
    """F47: one GPU needs more power for the same work: it runs into its limit, which its peers do
    not reach, and its clock falls below theirs.
    """
    for case in plan.cases():
        lasts = plan.draw("hours") * HOUR
        if place := plan.place(
            lasts,
            alone=False,
            stays_s=0.5 * HOUR,
            fits=partial(_alone_at_its_limit, more=case.magnitude),
        ):
            plan.truth(case, plan.topology.gpus[place.gpu], place.onset_s, place.onset_s + lasts)
            plan.inject(
                place.onset_s, partial(_weak, gpu=place.gpu, less=-case.magnitude, lasts=lasts)
            )


def _alone_at_its_limit(place: TopologyNode, *, more: float) -> bool:
    """Whether that much more takes the job over the limit, while most GPUs stay below it."""
    assert place.job is not None  # noqa: S101 - busy places have one
    load = place.job.work.load
    return load <= MAX_LOAD and load * (1 + more) >= OVER_LIMIT


def brake_node(world: FleetState, *, gpus: list[int], duty: float, lasts: float) -> Process:
    """The power brake of all these GPUs, for a share of the time."""
    world.gpus.brake[gpus] = duty
    yield lasts
    world.gpus.brake[gpus] = 0.0


def lower(world: FleetState, *, gpus: list[int], watts: float, lasts: float) -> Process:
    """A lower enforced limit, and back to what it was."""
    before = world.gpus.limit_w[gpus].tolist()
    for gpu in gpus:
        effects.limit(world, gpu, watts)
    yield lasts
    for gpu, limit in zip(gpus, before, strict=True):
        effects.limit(world, gpu, limit)


def _weak(world: FleetState, *, gpu: int, less: float, lasts: float) -> Process:
    world.gpus.power_knob[gpu] = 1 - less
    yield lasts
    world.gpus.power_knob[gpu] = 1.0
