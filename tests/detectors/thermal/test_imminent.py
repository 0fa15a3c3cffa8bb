"""Throttling that is about to begin is reported while there is time; heat that
settles below the limit is not.
"""

from __future__ import annotations

import pytest

from detectors import PAGES
from detectors.thermal import ThermalImminent
from detectors.thermal.imminent import FAULT
from tests.detectors.feed import open_findings
from tests.detectors.thermal.heat import Metal

LIMIT_C = 87.0
HOT = 3  # row of the GPU whose cooling fails
MINUTE = 60.0


@pytest.fixture
def metal() -> Metal:
    """A node at 550 W, settled near 60 C."""
    node = Metal(ThermalImminent(), 8, period_s=1.0, limit_c=LIMIT_C)
    node.watts = lambda _: 550.0
    assert node.run(5 * MINUTE) == []
    return node


def until_told(metal: Metal, max_s: float = 600.0) -> float | None:
    """Runs until there is a finding; the hot GPU's distance from its limit then,
    None where there is none.
    """
    for _ in range(round(max_s)):
        if metal.step():
            return LIMIT_C - metal.celsius[metal.gpus[HOT]]
    return None


@pytest.mark.slow
def test_a_gpu_that_loses_its_cooling_is_told_before_it_throttles(metal: Metal) -> None:
    """It would settle at 96 C: the ticket comes below the limit, and names the GPU."""
    metal.worse[metal.gpus[HOT]] = 2.2
    left = until_told(metal)
    assert left is not None
    assert left > 0
    assert open_findings(metal.feed.findings) == [("gpu", "GPU-n1-3", FAULT, "ticket")]
    assert 0 < metal.feed.findings[0].value < 120


@pytest.mark.slow
def test_heat_that_settles_below_the_limit_is_silent(metal: Metal) -> None:
    """From 60 to 80 C: warm, and that is all."""
    metal.worse[metal.gpus[HOT]] = 1.6
    assert until_told(metal) is None


@pytest.mark.slow
def test_a_job_that_starts_is_silent(metal: Metal) -> None:
    """Idle to full load: a steep rise to a temperature below the limit, on all GPUs."""
    for _ in range(3):
        metal.watts = lambda _: 75.0
        metal.run(5 * MINUTE)
        metal.watts = lambda _: 690.0
        metal.run(5 * MINUTE)
    assert metal.feed.findings == []


@pytest.mark.slow
def test_power_that_falls_takes_the_heat_away(metal: Metal) -> None:
    """The same rise, but the load is going down by itself."""
    metal.worse[metal.gpus[HOT]] = 2.2
    begin = metal.seconds
    metal.watts = lambda _: max(550.0 - 4.0 * (metal.seconds - begin), 75.0)
    assert until_told(metal) is None


@pytest.mark.slow
def test_a_sensor_that_steps_to_and_fro_is_silent(metal: Metal) -> None:
    """One kelvin up and down close to the limit."""
    metal.warmer = lambda gpu: (
        23.0 + (round(metal.seconds) % 7 < 3) * 1.0 if gpu is metal.gpus[HOT] else 0.0
    )
    metal.run(5 * MINUTE)
    metal.feed.findings.clear()
    assert until_told(metal) is None


@pytest.mark.slow
def test_without_a_margin_the_slowdown_temperature_is_taken(metal: Metal) -> None:
    """No T.Limit before Hopper."""
    node = Metal(ThermalImminent(), 8, period_s=1.0)
    node.watts = lambda _: 550.0
    step = node.feed.frame
    node.feed.frame = lambda values, **kw: step(  # type: ignore[method-assign]
        {**values, "temperature_slowdown_celsius": LIMIT_C}, **kw
    )
    node.run(5 * MINUTE)
    node.worse[node.gpus[HOT]] = 2.2
    assert until_told(node) is not None


@pytest.mark.slow
def test_it_ends_when_the_gpu_settles_below_the_limit(metal: Metal) -> None:
    """Two minutes in which nothing points over it."""
    metal.worse[metal.gpus[HOT]] = 2.2
    until_told(metal)
    metal.worse[metal.gpus[HOT]] = 1.0
    assert [f.phase for f in metal.run(10 * MINUTE)] == ["cleared"]


def test_the_temperature_of_the_memory_is_not_shown_as_evidence() -> None:
    """It is not judged: nobody can read how far it is from its limit."""
    assert "memory_temperature_celsius" not in {
        shown.column for shown in PAGES[ThermalImminent.name].shows
    }
