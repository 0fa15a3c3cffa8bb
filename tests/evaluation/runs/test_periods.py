"""How often each source of a world is read, which rates of its counters need."""

from __future__ import annotations

import pytest

from evaluation.runs.run import periods_of
from simulator.fleet import load_scenario, render


@pytest.mark.slow
def test_each_source_with_readings_has_a_period() -> None:
    """A world of waits has mounts and jobs' control groups too."""
    run = render(load_scenario("F80"), 1, magnitude="range", days=0.01, nodes=2)
    read = {one.source for one in run.observations() if one.frames}
    assert read == {"nvml", "infiniband", "host", "waits"}
    assert read <= periods_of(run).keys()
