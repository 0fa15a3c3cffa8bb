"""When and where faults strike: as they would in a cluster, and not in step with who reads it."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from simulator.fleet import load_scenario, render

HOUR_NS = 3600 * 10**9


def test_links_begin_to_flap_at_any_hour() -> None:
    """A hundred links that all begin within one hour would have one cause."""
    scenario = replace(load_scenario("F20"), cases=100)
    run = render(scenario, 1, magnitude="nominal", days=1.5, nodes=64)
    onsets = np.array([truth.onset_ns for truth in run.truth]) / HOUR_NS
    assert len(onsets) > 50
    assert np.quantile(onsets, 0.9) - np.quantile(onsets, 0.1) > 12


@pytest.mark.slow
def test_of_one_rail_one_leaf_is_dead_at_a_time_where_only_rails_are_known() -> None:
    """A second one would be the same fault to everybody who looks."""
    run = render(replace(load_scenario("F71"), cases=40), 1, nodes=256)
    by_rail = sorted((truth.entity, truth.onset_ns, truth.end_ns) for truth in run.truth)
    assert len(by_rail) > 20
    for (rail, _, end_ns), (next_rail, onset_ns, _) in itertools.pairwise(by_rail):
        assert rail != next_rail or end_ns < onset_ns


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["F80", "F81", "F82"])
def test_a_job_that_waits_is_seen_to_in_some_readings(scenario: str) -> None:
    """However long its cycle of work and waiting is, and whenever it is read."""
    run = render(load_scenario(scenario), 1, step_s=30.0, days=0.5, nodes=8)
    cases = [
        (truth.onset_ns, truth.end_ns, {gpu.id for gpu in truth.members}) for truth in run.truth
    ]
    seen: list[list[float]] = [[] for _ in cases]
    for one in run.observations():
        for frame in one.frames:
            if frame.kind != "gpu" or one.source != "nvml":
                continue
            used = frame.gauge("gpu_utilization_percent")
            for (onset_ns, end_ns, gpus), readings in zip(cases, seen, strict=True):
                if onset_ns < frame.time_ns <= end_ns:
                    rows = [row for row, gpu in enumerate(frame.devices) if gpu.id in gpus]
                    readings.extend(used[rows][np.isfinite(used[rows])].tolist())
    assert len(cases) >= 2
    for readings in seen:
        assert 5 < np.mean(readings) < 90
