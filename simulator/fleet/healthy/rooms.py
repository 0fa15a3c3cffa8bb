"""Rooms whose air is not steady: compressors that switch, economisers, doors, units that fail over,
neighbours that start to work, and noise of several time constants.

Shapes and ranges: compressors of direct-expansion units switch each 4 to 60 minutes, by 0.2 to 4 K
at the inlet, on for 20 to 90 % of the time; a unit that fails is taken over within 45 minutes, at a
rate that falls; economisers step 0 to 12 times a day; doors reach one to four racks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from simulator.fleet.plan import Plan
from simulator.fleet.topology import GPUS, RACK
from simulator.fleet.world import FleetState, Process

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
EVERY_S = 30.0  # how often the inlet is set
TAUS_S = np.array([30.0, 300.0, 3_000.0, 30_000.0])  # of the noise, each with the same variance
OVERLAP = 0.5  # of a neighbouring unit's wave in a rack, at most
Floats = NDArray[np.float64]
Wave = Callable[[float], Floats]  # kelvin per rack, (rack,), at a second of the run


@dataclass(frozen=True, slots=True)
class Unit:
    """A compressor: period in seconds, kelvin from its lowest to its highest, share of the period
    in which the room warms up, phase in periods.
    """

    period_s: float
    kelvin: float
    warms: float
    phase: float

    def at(self, time_s: float) -> float:
        """Kelvin above its lowest: a sawtooth of uneven flanks."""
        into = (time_s / self.period_s + self.phase) % 1.0
        up = into / self.warms if into < self.warms else (1 - into) / (1 - self.warms)
        return self.kelvin * up


@dataclass(frozen=True, slots=True)
class Step:
    """The inlet of some racks moves by ``kelvin`` over ``ramp_s`` from ``at_s`` on and back after
    ``lasts_s``; ``decays``: fast first, slower later.
    """

    racks: tuple[int, ...]
    at_s: float
    kelvin: float
    ramp_s: float
    lasts_s: float
    decays: bool = False

    def at(self, time_s: float) -> float:
        """Kelvin at a second of the run."""
        return self.kelvin * (self._share(time_s - self.at_s) - self._share(self._since(time_s)))

    def _since(self, time_s: float) -> float:
        return time_s - self.at_s - self.lasts_s

    def _share(self, since_s: float) -> float:
        if since_s <= 0:
            return 0.0
        return (
            1 - math.exp(-3 * since_s / self.ramp_s)
            if self.decays
            else min(since_s / self.ramp_s, 1.0)
        )


def cycling(plan: Plan) -> None:
    """H41: all that, in one hall; each rack breathes the air of its own unit and of the next."""
    plan.inject(0.0, partial(breathe, waves=waves_of(plan), noise_k=plan.draw("noise_k")))


def waves_of(plan: Plan) -> tuple[Wave, ...]:
    """What moves the inlets of this hall."""
    racks = math.ceil(plan.topology.nodes / RACK)
    own, mixed = _units(plan, racks), float(plan.rng.uniform(0, OVERLAP))
    steps = [*_economiser(plan, racks), *_doors(plan, racks), *_failures(plan, racks)]

    def units(time_s: float) -> Floats:
        each = np.array([unit.at(time_s) for unit in own])
        return np.asarray((1 - mixed) * each + mixed * np.roll(each, 1))

    def others(time_s: float) -> Floats:
        kelvin = np.zeros(racks)
        for step in steps:
            if step.at_s <= time_s < step.at_s + step.lasts_s + 5 * step.ramp_s:
                kelvin[list(step.racks)] += step.at(time_s)
        return kelvin

    return units, others


def breathe(world: FleetState, *, waves: tuple[Wave, ...], noise_k: float) -> Process:
    """Set the inlet of every rack twice a minute, on top of what faults make of it."""
    gpus, racks = world.gpus, math.ceil(world.topology.nodes / RACK)
    rack_of = np.arange(gpus.count) // (GPUS * RACK)
    noise, before = np.zeros((len(TAUS_S), racks)), np.zeros(racks)
    keep = np.exp(-EVERY_S / TAUS_S)[:, None]
    fresh = noise_k * np.sqrt((1 - keep**2) / len(TAUS_S))
    while True:
        noise = keep * noise + fresh * world.rng.standard_normal(noise.shape)
        now = sum((wave(world.now_s) for wave in waves), noise.sum(axis=0))
        gpus.inlet_rise += (now - before)[rack_of]
        before = now
        yield EVERY_S


def _units(plan: Plan, racks: int) -> list[Unit]:
    period, kelvin = plan.draw("period_minutes") * MINUTE, plan.draw("cycle_k")
    warms = plan.draw("warming_share")
    return [
        Unit(
            period * float(plan.rng.uniform(0.9, 1.1)),
            kelvin * float(plan.rng.uniform(0.6, 1.0)),
            warms,
            float(plan.rng.uniform()),
        )
        for _ in range(racks)
    ]


def _economiser(plan: Plan, racks: int) -> list[Step]:
    """The whole hall steps to another supply temperature and back."""
    return [
        Step(
            tuple(range(racks)),
            float(plan.rng.uniform(0, plan.end_s)),
            float(plan.rng.choice([-1, 1])) * plan.draw("economiser_k"),
            plan.draw("economiser_minutes") * MINUTE,
            float(plan.rng.uniform(1, 6)) * HOUR,
        )
        for _ in range(round(plan.draw("economiser_steps") * plan.end_s / DAY))
    ]


def _doors(plan: Plan, racks: int) -> list[Step]:
    """A door or a panel is open; a neighbour starts to work."""
    return [
        Step(
            tuple(sorted({int(plan.rng.integers(racks)) for _ in range(2)})),
            float(plan.rng.uniform(0, plan.end_s)),
            plan.draw("door_k"),
            plan.draw("door_minutes") * MINUTE / 3,
            plan.draw("door_minutes") * MINUTE,
        )
        for _ in range(int(plan.rng.poisson(plan.draw("doors_a_day") * plan.end_s / DAY)))
    ]


def _failures(plan: Plan, racks: int) -> list[Step]:
    """A unit fails and the others take over: the row warms up fast, then slower, then cools."""
    if plan.rng.random() > plan.draw("failover_share"):
        return []
    return [
        Step(
            tuple(range(racks)),
            float(plan.rng.uniform(2 * HOUR, max(plan.end_s - HOUR, 3 * HOUR))),
            plan.draw("failover_k"),
            plan.draw("failover_minutes") * MINUTE / 2,
            plan.draw("failover_minutes") * MINUTE,
            decays=True,
        )
    ]
