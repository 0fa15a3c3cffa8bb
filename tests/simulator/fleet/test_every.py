"""A fleet in which faults of every scenario happen."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.fleet_day import PARTS
from evaluation.metrics.scope import ByHost
from simulator.fleet.every import LEFT_OUT, Pace, every_fault
from simulator.fleet.faults import FAULTS


@pytest.mark.slow
def test_a_day_of_64_nodes_has_every_scenario_but_those_that_take_longer() -> None:
    """One case of each at least; what is left out says why."""
    run, left_out = every_fault(6, step_s=15.0)
    assert left_out == LEFT_OUT
    assert {truth.scenario for truth in run.truth} == set(FAULTS) - set(LEFT_OUT)


@pytest.mark.slow
def test_what_takes_longer_than_a_day_has_a_world_of_its_own() -> None:
    """Of benchmarks/fleet_day.py: with the day, every scenario."""
    found: set[str] = set()
    for part in PARTS:
        run, left_out = part.run(6)
        assert left_out == {}
        assert {truth.scenario for truth in run.truth} == {*part.scenarios}
        found |= {*part.scenarios}
    assert found == set(LEFT_OUT)


def test_each_node_is_read_at_its_pace() -> None:
    """A host has an observation where it was read, and none in between."""
    run, _ = every_fault(
        1, nodes=2, days=0.01, step_s=15.0, names=("F06",), paces=(Pace((1,), 60.0),)
    )
    cut, read = ByHost(read_only=True), {"node-0000": 0, "node-0001": 0}
    for whole in run.observations():
        if whole.source == "nvml":
            for host, part in cut.split(whole):
                read[host] += any(not np.isnan(frame.gauges).all() for frame in part.frames)
    assert read["node-0000"] > 3.5 * read["node-0001"] > 0
