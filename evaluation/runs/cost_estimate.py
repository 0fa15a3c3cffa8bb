"""What a run costs: the dearest of a stage begins first, and the time left can be estimated."""

from __future__ import annotations

import math

from evaluation.runs.run import COMPARED_NS, OURS, Job
from evaluation.runs.scenarios import every_scenario, scenario
from simulator.fleet import Scenario

DAY_S = 86_400.0
MINUTE_S = 60.0  # of a block: what is judged at its end costs as much however often it is read
# CPU seconds, a fixed part and one per node, measured on a 2-vCPU x86 machine that had other work
# (the healthy fleet with 16, 64 and 512 nodes, read each 10 and 60 s).
WORLD = (0.0005, 0.0000135)  # a reading of all sources
FLEET, FLEET_BLOCK = (0.0041, 0.000021), (0.0047, 0.000033)  # a reading; what a minute adds
AGENTS, AGENTS_BLOCK = (0.0048, 0.000043), (0.0068, 0.000048)  # agents in one pass
BASELINE = (0.0001, 0.000015)
LEARNING = {"half-space-trees": (0.0003, 0.0004), "isolation-forest": (0.0005, 0.00004)}


def seconds_of(job: Job) -> float:
    """CPU seconds that a run takes, roughly. ValueError for an unknown scenario."""
    one = every_scenario().get(job.scenario) or scenario(job.scenario)
    nodes = job.nodes or one.nodes
    days = job.days or one.days
    # the restarted twin
    again = 1.0 + min(COMPARED_NS / 1e9 / DAY_S / days, 0.5) if job.restart else 1.0
    blocks = min(job.step_s / MINUTE_S, 1.0)  # that end in a reading
    tick = _of(WORLD, nodes)
    for name, scope in job.contestants:
        if name != OURS:
            tick += _of(LEARNING.get(name, BASELINE), nodes)
        elif scope == "fleet":
            tick += (_of(FLEET, nodes) + blocks * _of(FLEET_BLOCK, nodes)) * again
        else:
            agents = _agents(job, one, nodes)
            tick += (_of(AGENTS, agents) + blocks * _of(AGENTS_BLOCK, agents)) * again
    return days * DAY_S / job.step_s * tick


def _agents(job: Job, scenario: Scenario, nodes: int) -> int:
    """How many agents are run: those of struck nodes, in a healthy run all."""
    cases = job.cases or math.ceil(scenario.cases * nodes / scenario.nodes)
    return min(job.agents or nodes, cases or nodes, nodes)


def _of(price: tuple[float, float], nodes: int) -> float:
    return price[0] + price[1] * nodes
