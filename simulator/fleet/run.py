"""A scenario rendered for one seed: its observations, the truth about them, and how
much healthy life they hold.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from pipeline.clock import SECOND_NS
from pipeline.observation import Observation
from simulator.fleet.agents import Agents
from simulator.fleet.background import background
from simulator.fleet.faults import FAULTS
from simulator.fleet.fec import histories
from simulator.fleet.healthy import HEALTHY, wide
from simulator.fleet.jobs import schedule
from simulator.fleet.models import others
from simulator.fleet.plan import Draws, Plan
from simulator.fleet.ranges import draw, widened
from simulator.fleet.scenario import Scenario, Split
from simulator.fleet.topology import Topology
from simulator.fleet.truth import Truth
from simulator.fleet.world import FleetState, Process
from simulator.profile import Profile, load_profile

PROFILE = "hgx-h100"
# Data and signalling rates of 4x links in Gb/s (IBTA volume 2; FEC and coding count as signalling).
SPEEDS = {"HDR": (200, 212.5), "NDR": (400, 425.0), "XDR": (800, 850.0)}
BEGIN_NS = 1_772_409_600 * SECOND_NS  # 2026-03-02, a Monday, at midnight UTC


@dataclass(frozen=True)
class Run:
    """One rendering.

    ``observations`` may be called again and gives the same ones; frames are
    made as they are asked for.
    """

    scenario: Scenario
    seed: int
    split: Split
    step_s: float
    topology: Topology
    truth: tuple[Truth, ...]
    skipped: int
    _courses: Sequence[tuple[float, Callable[[FleetState], Process]]]
    _seeds: np.random.SeedSequence

    @property
    def restarts(self) -> tuple[tuple[int, str], ...]:
        """When the agents restart (unix ns), and how what they saved looks then:
        whole, stale or damaged.

        The harness restarts them.
        """
        if not self.scenario.world.restarts:
            return ()
        rng = np.random.default_rng(_children(self._seeds, 4)[3])
        times = np.sort(rng.uniform(0.1, 0.95, self.scenario.world.restarts)) * self.ticks
        kinds = ("whole", "stale", "damaged")
        return tuple(
            (self.topology.begin_ns + int(time) * round(self.step_s * SECOND_NS), kinds[number % 3])
            for number, time in enumerate(times)
        )

    @property
    def seconds(self) -> float:
        """Length of the run."""
        return self.ticks * self.step_s

    @property
    def ticks(self) -> int:
        """Readings of each source."""
        return round(self.scenario.days * 86400 / self.step_s)

    @property
    def gpu_seconds(self) -> float:
        """Exposure: GPUs times seconds."""
        return self.seconds * len(self.topology.gpus)

    @property
    def port_seconds(self) -> float:
        """Exposure of the nodes' ports."""
        return self.seconds * len(self.topology.ports)

    def observations(self) -> Iterator[Observation]:
        """All observations in the order they arrive."""
        agents = Agents(self.world(), _children(self._seeds, 2)[1])
        yield from agents.observations(self.ticks)

    def world(self) -> FleetState:
        """The fleet before the first tick, with all that will happen to it."""
        world_seeds, _, back_seeds = _children(self._seeds, 3)
        world = FleetState(self.scenario, self.topology, world_seeds, self.step_s)
        if self.scenario.world.background:
            background(world, np.random.default_rng(back_seeds))
        if self.scenario.world.fec:
            world.add(0.0, histories(world))
        for at_s, process in self._courses:
            world.add(at_s, process(world))
        return world


def render(
    scenario: Scenario,
    seed: int,
    *,
    magnitude: str | float | None = None,
    split: Split = "dev",
    step_s: float = 10.0,
    days: float | None = None,
    nodes: int | None = None,
) -> Run:
    """A scenario for a seed, any integer.

    ``magnitude`` is nominal, half, range (drawn per case) or a value; None is nominal.

    The two splits never share random numbers. ``days`` and ``nodes`` make the run longer or larger
    than the scenario says. ValueError for a magnitude that is none.
    """
    if days is not None or nodes is not None:
        scenario = replace(scenario, days=days or scenario.days, nodes=nodes or scenario.nodes)
    words = [abs(seed), int(seed < 0), zlib.crc32(scenario.id.encode()), int(split == "test")]
    queue, plan_seeds, world = _children(np.random.SeedSequence(words), 3)
    end_s = scenario.days * 86400
    scenario, profile = _fabric(
        scenario, np.random.default_rng(_children(np.random.SeedSequence(words), 4)[3])
    )
    if scenario.world.wide:
        drawn = np.random.default_rng(_children(np.random.SeedSequence(words), 5)[4])
        scenario = widened(scenario, draw(drawn, split))
    jobs = schedule(np.random.default_rng(queue), scenario.world, scenario.nodes, end_s)
    models = max(scenario.world.models, 1 + scenario.world.mixed_models)
    pod, known = scenario.world.pod_nodes, scenario.world.known
    topology = Topology(
        profile,
        scenario.nodes,
        words[0] * 2 + words[1],
        BEGIN_NS,
        jobs,
        others(round(models) - 1),
        pod,
        known,
        in_blocks=scenario.world.models > 1,
    )
    plan = Plan(
        scenario,
        topology,
        np.random.default_rng(plan_seeds),
        draws=Draws(split, magnitude),
        step_s=step_s,
    )
    if scenario.world.wide:
        wide.jobs(plan)
        wide.air_and_readings(plan)
    {**FAULTS, **HEALTHY}[scenario.id](plan)
    return Run(
        scenario,
        seed,
        split,
        step_s,
        topology,
        plan.finished(),
        plan.skipped,
        tuple(plan.processes),
        world,
    )


def _fabric(scenario: Scenario, rng: np.random.Generator) -> tuple[Scenario, Profile]:
    """What the fabric of this fleet is made of, where the scenario leaves it open."""
    profile, world = load_profile(PROFILE), scenario.world
    speed = str(rng.choice(list(SPEEDS)))
    twins: Literal["yes", "no"] = "yes" if rng.random() < 0.5 else "no"
    if world.links == "any":
        data, wire = SPEEDS[speed]
        ports = replace(
            profile.ports,
            speed=speed,
            gigabits_per_second=data,
            signalling_gigabits_per_second=wire,
        )
        profile = replace(profile, ports=ports)
    if world.twins == "any":
        scenario = replace(scenario, world=replace(world, twins=twins))
    return scenario, profile


def _children(seeds: np.random.SeedSequence, count: int) -> list[np.random.SeedSequence]:
    """Children by their own numbers: SeedSequence.spawn counts up, and a run must be the
    same each time it is made.
    """
    return [
        np.random.SeedSequence(seeds.entropy, spawn_key=(*seeds.spawn_key, number))
        for number in range(count)
    ]
