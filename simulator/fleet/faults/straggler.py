"""GPUs and ports that slow their job down without saying why."""

from __future__ import annotations

import math
from functools import partial

from simulator.fleet import effects
from simulator.fleet.healthy import rollout
from simulator.fleet.plan import Plan, TopologyNode
from simulator.fleet.topology import GPUS
from simulator.fleet.world import FleetState, Process

HOUR = 3600.0
PAGES_FROM = 0.08  # share of a node's clock: less can wait until the morning
EXCURSIONS = 4  # so many, over three hours, are not chance


def silent_clock_loss(plan: Plan) -> None:
    """F16: the clock of one GPU falls while its job trains; reason bits stay clean."""
    for case in plan.cases():
        lasts = plan.draw("hours") * HOUR
        if place := plan.place(lasts, nodes=2, stays_s=900.0):
            plan.truth(case, plan.topology.gpus[place.gpu], place.onset_s, place.onset_s + lasts)
            plan.inject(
                place.onset_s, partial(slow, gpu=place.gpu, loss=case.magnitude, lasts=lasts)
            )


def now_and_then(plan: Plan) -> None:
    """F17: the same for two minutes at a time, again and again."""
    for case in plan.cases():
        on, off, lasts = plan.draw("on_s"), plan.draw("off_s"), plan.draw("hours") * HOUR
        if place := plan.place(lasts, needs_s=3.2 * HOUR, nodes=2, stays_s=3.2 * HOUR):
            plan.truth(case, plan.topology.gpus[place.gpu], place.onset_s, place.onset_s + lasts)
            process = partial(
                _now_and_then,
                gpu=place.gpu,
                loss=case.magnitude,
                on=on,
                off=off,
                times=int(lasts / (on + off)),
            )
            plan.inject(place.onset_s, process)


def slow_rail(plan: Plan) -> None:
    """F27: one port of a job moves half of what the others do; the link is up
    at full width and speed.
    """
    for case in plan.cases():
        lasts = plan.draw("hours") * HOUR
        if place := plan.place(lasts, needs_s=1800.0, nodes=2, stays_s=1800.0):
            plan.truth(case, plan.topology.ports[place.gpu], place.onset_s, place.onset_s + lasts)
            plan.inject(
                place.onset_s,
                partial(_narrow, port=place.gpu, share=1 - case.magnitude, lasts=lasts),
            )


def after_roll_out(plan: Plan) -> None:
    """F86: GPUs of nodes that have just come back with another driver lose clock, while the rest of
    the roll-out goes on.
    """
    back = rollout.drawn(plan)
    within_s = plan.draw("after_hours") * HOUR
    for case in plan.cases():
        lasts = plan.draw("hours") * HOUR
        place = plan.place(
            lasts,
            alone=False,
            nodes=2,
            lead_s=0.0,
            stays_s=HOUR,
            warm_s=rollout.FIRST_AT_S,
            fits=lambda at: 0.0 < at.onset_s - back.get(at.node, math.inf) < within_s,
        )
        if place:
            plan.truth(case, plan.topology.gpus[place.gpu], place.onset_s, place.onset_s + lasts)
            process = partial(slow, gpu=place.gpu, loss=case.magnitude, lasts=lasts)
            plan.inject(place.onset_s, process)


def whole_node(plan: Plan) -> None:
    """F55: the clocks of all GPUs of one node of a job fall together; reason bits stay clean.

    Where no other node of the job has its model, it is known to its own past only.
    """
    alone = plan.scenario.alone
    assert alone is not None  # noqa: S101 - of this scenario
    for case in plan.cases():
        lasts = plan.draw("hours") * HOUR
        if place := plan.place(lasts, nodes=2, stays_s=900.0):
            rows = range(place.node * GPUS, (place.node + 1) * GPUS)
            peers = _has_peers(plan, place)
            plan.truth(
                case,
                plan.topology.node_devices[place.node],
                place.onset_s,
                place.onset_s + lasts,
                severity="page" if peers and case.magnitude >= PAGES_FROM else "ticket",
                detect_by_s=None if peers else alone.detect_by_s,
                members=tuple(plan.topology.gpus[row] for row in rows),
            )
            for row in rows:
                process = partial(slow, gpu=row, loss=case.magnitude, lasts=lasts)
                plan.inject(place.onset_s, process)


def _has_peers(plan: Plan, place: TopologyNode) -> bool:
    """Whether another node of its job has its model."""
    assert place.job is not None  # noqa: S101 - busy places have one
    models = [plan.topology.gpus[node * GPUS].attributes["name"] for node in place.job.nodes]
    return models.count(plan.topology.gpus[place.gpu].attributes["name"]) > 1


def slow(world: FleetState, *, gpu: int, loss: float, lasts: float) -> Process:
    """A silent loss of clock."""
    world.gpus.clock_knob[gpu] *= 1 - loss
    yield lasts
    world.gpus.clock_knob[gpu] /= 1 - loss


def _now_and_then(
    world: FleetState, *, gpu: int, loss: float, on: float, off: float, times: int
) -> Process:
    for _ in range(times):
        yield from slow(world, gpu=gpu, loss=loss, lasts=on)
        yield off


def _narrow(world: FleetState, *, port: int, share: float, lasts: float) -> Process:
    world.ports.speed[port] = share
    world.ports.wait[port] = effects.CONGESTED_TICKS_PER_S
    yield lasts
    world.ports.speed[port] = 1.0
    world.ports.wait[port] = 0.0
