"""What a run costs, so that the dearest begins first and the time left can be estimated."""

from __future__ import annotations

import math

from evaluation.runs.run import COMPARED_NS, OURS, Job
from evaluation.runs.scenarios import every_scenario, scenario
from simulator.fleet import Scenario

DAY_S = 86_400.0
# CPU seconds per reading of all sources, measured on one core of a 2-vCPU x86 machine: a
# fixed part and one per node.
WORLD = (0.00023, 0.0000065)
FLEET = (0.0024, 0.0000096)
AGENTS = (0.0032, 0.000037)  # agents in one pass
BASELINE = (0.0001, 0.000007)
LEARNING = {"half-space-trees": (0.0003, 0.00004), "isolation-forest": (0.0005, 0.000009)}


def seconds_of(job: Job) -> float:
    """CPU seconds that a run takes, roughly. ValueError for an unknown scenario."""
    one = every_scenario().get(job.scenario) or scenario(job.scenario)
    nodes = job.nodes or one.nodes
    days = job.days or one.days
    # the restarted twin
    again = 1.0 + min(COMPARED_NS / 1e9 / DAY_S / days, 0.5) if job.restart else 1.0
    tick = _of(WORLD, nodes)
    for name, scope in job.contestants:
        if name != OURS:
            tick += _of(LEARNING.get(name, BASELINE), nodes)
        elif scope == "fleet":
            tick += _of(FLEET, nodes) * again
        else:
            tick += _of(AGENTS, _agents(job, one, nodes)) * again
    return days * DAY_S / job.step_s * tick


def _agents(job: Job, scenario: Scenario, nodes: int) -> int:
    """How many agents are run: those of struck nodes, in a healthy run all."""
    cases = job.cases or math.ceil(scenario.cases * nodes / scenario.nodes)
    return min(job.agents or nodes, cases or nodes, nodes)


def _of(price: tuple[float, float], nodes: int) -> float:
    return price[0] + price[1] * nodes
