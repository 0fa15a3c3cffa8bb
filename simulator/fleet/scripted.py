"""A scripted day of a small fleet: sixteen nodes in two racks, with faults at fixed times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from simulator.day import Day, Step
from simulator.fleet.faults.link import worsen
from simulator.fleet.faults.thermal import warm
from simulator.fleet.faults.throttle import brake_node
from simulator.fleet.jobs import schedule
from simulator.fleet.plan import WARM_S
from simulator.fleet.run import PROFILE, Run
from simulator.fleet.scenario import Scenario
from simulator.fleet.settings import Settings
from simulator.fleet.topology import GPUS, RACK, Topology
from simulator.fleet.world import FleetState, Process
from simulator.profile import load_profile

NODES = 2 * RACK
MINUTE_S = 60.0
AFTER_S = 86400.0  # how long the nodes go on after the day
# Two jobs of a rack each, which outlast the day.
WORLD = Settings(
    job_gpus=RACK * GPUS, job_gpus_sigma=0.0, job_hours_low=24.0, job_hours_high=48.0, loss=0.0
)

Fault = Callable[[FleetState], Process]


@dataclass(frozen=True, slots=True)
class FleetDay:
    """``day`` is what is printed of it; ``faults`` act at the times of its steps."""

    day: Day
    faults: tuple[Fault, ...]

    def run(self, begin_ns: int, seed: int, step_s: float) -> Run:
        """Its observations, and those of ``AFTER_S`` after it, from ``begin_ns`` (unix) on; the
        same for the same seed.
        """
        lasts_s = self.day.lasts_s + AFTER_S
        scenario = Scenario(
            self.day.name, "healthy", "demo", self.day.title, NODES, lasts_s / 86400,
            "fleet", switch_ports=True, world=WORLD,
        )  # fmt: skip
        queue, world = np.random.SeedSequence(seed).spawn(2)
        jobs = schedule(np.random.default_rng(queue), WORLD, NODES, lasts_s)
        topology = Topology(load_profile(PROFILE), NODES, seed, begin_ns, jobs)
        times = (step.at_s for step in self.day.steps)
        acts = tuple(zip(times, self.faults, strict=True))
        return Run(scenario, seed, "dev", step_s, topology, (), 0, acts, world)


def _rows(first: int, last: int) -> list[int]:
    """GPUs of these nodes."""
    return [*range(first * GPUS, last * GPUS)]


def _day(name: str, title: str, lasts_s: float, *acts: tuple[Step, Fault]) -> FleetDay:
    return FleetDay(
        Day(name, title, lasts_s, tuple(step for step, _ in acts)), tuple(act for _, act in acts)
    )


def _slow_node(at_s: float, lasts_s: float) -> tuple[Step, Fault]:
    return (
        Step(
            at_s,
            "",
            "node-0003 becomes slow: a power supply failed, and the power brake holds its GPUs "
            "back for a fifth of the time. The seven other nodes of its job wait for it.",
            "The throttle reasons of its GPUs; the job's other nodes spin.",
        ),
        partial(brake_node, gpus=_rows(3, 4), duty=0.2, lasts=lasts_s),
    )


# Detectors learn for the first hour and a half, as after an agent's first start.
BAD = _day(
    "bad",
    "A bad day of a small fleet",
    WARM_S + 195 * MINUTE_S,
    _slow_node(WARM_S + 10 * MINUTE_S, 40 * MINUTE_S),
    (
        Step(
            WARM_S + 60 * MINUTE_S,
            "",
            "The cable of mlx5_2 of node-0006 gets worse for 40 minutes, in one direction: the "
            "node receives bit errors, port 7 of the switch leaf-0-2 sends well and counts none.",
            "Symbol errors of both ends: one counts, the other does not.",
        ),
        partial(worsen, port=6 * GPUS + 2, ends="near", ramp=40 * MINUTE_S),
    ),
    (
        Step(
            WARM_S + 120 * MINUTE_S,
            "",
            "The cooling of rack-01 fails: its inlet warms up by half a kelvin a minute.",
            "All GPUs of nodes 8 to 15 warm up together, at the same power.",
        ),
        partial(warm, gpus=_rows(8, 16), per_minute=0.5, rise=18.0, lasts=60 * MINUTE_S),
    ),
)
SHORT = _day("short", "A short day", 15 * MINUTE_S, _slow_node(5 * MINUTE_S, 5 * MINUTE_S))
DAYS: Mapping[str, FleetDay] = {"bad": BAD, "short": SHORT}
