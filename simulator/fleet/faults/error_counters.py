"""Links that count errors of the rarer kinds: the correction of an NVLink that works harder from
day to day, and ports whose other counters gain.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from simulator.fleet import effects
from simulator.fleet.healthy.correction import EVERY_S, harder_at_times
from simulator.fleet.plan import Plan
from simulator.fleet.world import FleetState, Process

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
PLATEAU_S = 2 * MINUTE
# What a port counts, and how many times as much of it there is: a damaged cable is seen packet by
# packet, a partition key that is wrong blocks all that is sent to it, and registers of four bits
# count bursts.
COUNTED: Mapping[str, float] = {
    "receive_errors": 1.0,
    "link_error_recoveries": 0.3,
    "local_link_integrity_errors": 0.1,
    "buffer_overrun_errors": 0.1,
    "transmit_constraint_errors": 10.0,
    "receive_constraint_errors": 10.0,
}


def growing_tail(plan: Plan) -> None:
    """F48: codewords with many wrong symbols on a GPU's NVLinks become more by orders of magnitude,
    on top of what each link does every day.
    """
    harder_at_times(plan)
    for case in plan.cases():
        if place := plan.place(plan.end_s, needs_s=30 * HOUR, busy=False, alone=False):
            plan.truth(case, plan.topology.gpus[place.gpu], place.onset_s, plan.end_s)
            plan.inject(place.onset_s, partial(_grow, gpu=place.gpu, orders_per_day=case.magnitude))


def counters(plan: Plan) -> None:
    """F49: one of the counters that no other fault moves gains, at one end of a link; more at some
    times than at others.
    """
    plan.inject(0.0, _answer)
    struck: set[int] = set()  # registers that are full stay so
    for case in plan.cases():
        lasts, uneven = plan.draw("hours") * HOUR, plan.draw("uneven")
        name = list(COUNTED)[case.number % len(COUNTED)]
        if place := plan.place(
            lasts,
            needs_s=HOUR,
            stays_s=HOUR,
            alone=False,
            fits=lambda place: place.gpu not in struck,
        ):
            struck.add(place.gpu)
            port = plan.topology.ports[place.gpu]
            plan.truth(case, port, place.onset_s, place.onset_s + lasts)
            plan.inject(
                place.onset_s,
                partial(
                    _bursts,
                    port=place.gpu,
                    name=name,
                    per_s=case.magnitude * COUNTED[name] / MINUTE,
                    uneven=uneven,
                    lasts=lasts,
                ),
            )


def _grow(world: FleetState, *, gpu: int, orders_per_day: float) -> Process:
    while True:
        world.fec_orders[gpu] += orders_per_day * EVERY_S / DAY
        yield EVERY_S


def _answer(world: FleetState) -> Process:
    """All ports count all of it, as those of mlx5 do."""
    for name in COUNTED:
        world.port_columns.set_counter(name, 0)
    yield 0.0


def _bursts(
    world: FleetState, *, port: int, name: str, per_s: float, uneven: float, lasts: float
) -> Process:
    """Errors at a rate that is another each few minutes, by the gamma law: the more ``uneven``, the
    more of them come in few of these minutes.
    """
    passed = 0.0
    while passed < lasts:
        rate = per_s * float(world.rng.gamma(1 / uneven, uneven))
        effects.rate(world.ports.rates, name, port, rate)
        yield PLATEAU_S
        passed += PLATEAU_S
    effects.rate(world.ports.rates, name, port, 0.0)
