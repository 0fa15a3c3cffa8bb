"""GPUs and ports that slow their job down without saying why."""

from __future__ import annotations

from functools import partial

from collector.simulator.fleet.plan import Plan
from collector.simulator.fleet.world import Course, World


def silent_clock_loss(plan: Plan) -> None:
    """The clock of one GPU falls while its job trains; reason bits stay clean."""
    for case in plan.cases():
        lasts = plan.draw("hours") * 3600
        if place := plan.place(lasts, nodes=2, stays_s=900.0):
            plan.truth(case, plan.topology.gpus[place.gpu], place.onset_s, place.onset_s + lasts)
            plan.strike(place.onset_s, partial(_slow, gpu=place.gpu, loss=case.magnitude, lasts=lasts))


def _slow(world: World, *, gpu: int, loss: float, lasts: float) -> Course:
    world.gpus.clock_knob[gpu] *= 1 - loss
    yield lasts
    world.gpus.clock_knob[gpu] /= 1 - loss
