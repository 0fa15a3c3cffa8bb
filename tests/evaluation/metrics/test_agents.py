"""Agents that are judged in one pass say what they say one at a time."""

from __future__ import annotations

import pytest

from detectors import all_detectors
from detectors.incidents import Incidents
from evaluation.metrics.agents import Agents, ShippedAgents
from evaluation.metrics.panel import Candidate, Panel, judge
from evaluation.metrics.shipped import Shipped
from tests.contracts.noise import Noise

PERIODS = dict.fromkeys(("nvml", "infiniband", "host", "kmsg"), 30.0)
TICKS, SEED = 30, 11


def hosts() -> list[str]:
    """Those of the noise."""
    found = {
        device.host
        for observation in Noise(SEED).observations(3)
        for frame in observation.frames
        for device in frame.devices
    }
    return sorted(found)


@pytest.mark.slow
@pytest.mark.parametrize("some", [False, True])
def test_agents_at_once_say_what_each_says_alone(some: bool) -> None:
    """Of every other node of a fleet or of all, through a restart half-way, as they are and as
    shipped: every finding and incident.
    """
    only = frozenset(hosts()[::2] if some else hosts())
    singly = Candidate("ours", "node", Panel(all_detectors, "node", Incidents, only=only))
    at_once = Candidate("ours", "node", Agents(all_detectors, Incidents, only))
    both = [
        (singly, Candidate("shipped", "node", Shipped(singly, Incidents))),
        (at_once, Candidate("shipped", "node", ShippedAgents(at_once, Incidents))),
    ]
    noise = list(Noise(SEED).observations(TICKS))
    half_ns = noise[len(noise) // 2].time_ns
    for side in both:
        judge(noise, side, PERIODS, restarts=[(half_ns, "whole")])
    for one, other in zip(*both, strict=True):
        assert len(one.findings) > 100
        assert sorted(map(repr, other.findings)) == sorted(map(repr, one.findings))
        assert sorted(map(repr, other.incidents)) == sorted(map(repr, one.incidents))
