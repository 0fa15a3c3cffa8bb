"""Runs of the fleet: the contract that scoring stands on."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.observation import Observation
from simulator.fleet import load_scenario, render


def observations(days: float = 0.02, seed: int = 1, **options: object) -> list[Observation]:
    """A short run of F16 on four nodes."""
    return list(render(load_scenario("F16"), seed, days=days, nodes=4, **options).observations())  # type: ignore[arg-type] # passed on


@pytest.mark.slow
def test_same_seed_same_observations() -> None:
    """A seed gives the same observations, bit for bit, however often it is rendered."""
    assert observations() == observations()


@pytest.mark.slow
def test_a_run_that_is_observed_again_is_the_same() -> None:
    """Two judges of one run see one world, its mounts and control groups too."""
    run = render(load_scenario("F80"), 1, magnitude="range", days=0.005, nodes=2)
    first, second = list(run.observations()), list(run.observations())
    assert {frame.kind for one in first for frame in one.frames} >= {"mount", "job_group"}
    assert first == second


@pytest.mark.slow
def test_other_seed_other_observations() -> None:
    """Another seed gives another run, and the test split shares nothing
    with the development split.
    """
    first = observations()
    assert first != observations(seed=2)
    assert first != observations(split="test")


@pytest.mark.slow
def test_sequence_rises_by_one() -> None:
    """Observations are numbered in the order they arrive."""
    assert [o.seq for o in observations()] == list(range(1, len(observations()) + 1))


def test_frames_stay_as_they_were() -> None:
    """A frame that somebody keeps does not change when later ones are made."""
    run = render(load_scenario("F16"), 1, days=0.01, nodes=4)
    kept = [
        (o.frames[0], o.frames[0].gauges.copy(), o.frames[0].counters.copy())
        for o in run.observations()
        if o.source == "nvml"
    ]
    assert len(kept) > 80
    for frame, gauges, counters in kept:
        assert np.array_equal(frame.gauges, gauges, equal_nan=True)
        assert np.array_equal(frame.counters, counters)


def test_rows_are_the_topology() -> None:
    """The rows of the GPU frame are the topology's GPUs, eight of each node, each with
    its rack, leaf and rail.
    """
    run = render(load_scenario("F16"), 1, days=0.01, nodes=4)
    frame = next(o.frames[0] for o in run.observations() if o.source == "nvml")
    assert frame.devices == run.topology.gpus
    assert [d.host for d in frame.devices[7:9]] == ["node-0000", "node-0001"]
    assert {"rack", "leaf", "rail"} <= frame.devices[0].attributes.keys()
