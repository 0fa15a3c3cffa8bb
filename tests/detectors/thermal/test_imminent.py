"""Throttling that is about to begin is reported while there is time; heat that
settles below the limit is not.
"""

from __future__ import annotations

import pytest

from detectors import PAGES
from detectors.thermal import ThermalImminent
from detectors.thermal.imminent import FAULT
from pipeline.finding import Finding
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


STEADY_C = 27.0 + 7 * 0.7 + 0.055 * 690.0  # of the hottest GPU at 690 W
STARTS = [(period_s, tau_s) for period_s in (1.0, 5.0, 15.0) for tau_s in (3.0, 8.0, 20.0, 120.0)]


def cold(period_s: float, tau_s: float, left_k: float = 4.0) -> Metal:
    """A node that has been idle, cooled by such a plate or sink, whose full load ends so far below
    the limit.
    """
    node = Metal(ThermalImminent(), 8, period_s=period_s, limit_c=STEADY_C + left_k)
    node.tau_s = tau_s
    node.watts = lambda _: 75.0
    assert node.run(5 * MINUTE) == []
    return node


@pytest.mark.slow
@pytest.mark.parametrize(("period_s", "tau_s"), STARTS)
def test_a_job_that_starts_on_cold_gpus_is_silent_whatever_cools_them(
    period_s: float, tau_s: float
) -> None:
    """Cold plates follow within seconds, heat sinks in minutes; the room is nearly too hot."""
    node = cold(period_s, tau_s)
    node.watts = lambda _: 690.0
    assert node.run(5 * MINUTE) == []


@pytest.mark.slow
@pytest.mark.parametrize("into_s", [2, 15, 40])
@pytest.mark.parametrize("tau_s", [8.0, 45.0])
def test_an_agent_that_starts_while_a_job_warms_up_is_silent(into_s: int, tau_s: float) -> None:
    """It has not seen that the load is new."""
    node = cold(1.0, tau_s)
    node.watts = lambda _: 690.0
    node.run(into_s)
    node.feed.detector = ThermalImminent()
    assert node.run(5 * MINUTE) == []


@pytest.mark.slow
@pytest.mark.parametrize("lag_s", [10, 30, 60])
def test_fans_that_lag_behind_a_new_load_are_silent(lag_s: int) -> None:
    """Without them the GPUs would settle far above their limit."""
    node = cold(1.0, 60.0, left_k=12.0)
    node.watts = lambda _: 690.0
    node.worse = dict.fromkeys(node.gpus, 1.6)
    node.run(lag_s)
    node.worse = dict.fromkeys(node.gpus, 1.0)
    node.run(5 * MINUTE)
    assert node.feed.findings == []


@pytest.mark.slow
def test_a_gpu_that_starts_without_its_cooling_is_told_from_its_peers() -> None:
    """They settle while it goes on: before it slows down it has left them behind."""
    node = cold(1.0, 45.0, left_k=25.0)
    node.watts = lambda _: 690.0
    node.worse[node.gpus[HOT]] = 2.0
    findings: list[Finding] = []
    while not findings and node.celsius[node.gpus[HOT]] < STEADY_C + 25.0:
        findings = node.step()
    assert [finding.device for finding in findings] == [node.gpus[HOT]]


@pytest.mark.slow
def test_a_node_that_starts_without_its_cooling_is_told_before_it_slows_down() -> None:
    """No peer shows what is usual: it is reported when nothing can stop it any more."""
    node = cold(1.0, 45.0)
    node.watts = lambda _: 690.0
    node.worse = dict.fromkeys(node.gpus, 1.5)
    findings: list[Finding] = []
    while not findings and max(node.celsius.values()) < STEADY_C + 4.0:
        findings = node.step()
    assert findings


@pytest.mark.slow
def test_power_that_swings_with_the_steps_of_a_job_hides_nothing(metal: Metal) -> None:
    """Single readings of it differ by a tenth."""
    metal.worse[metal.gpus[HOT]] = 2.2
    metal.watts = lambda _: 520.0 + 60.0 * (round(metal.seconds) % 3 > 0)
    left = until_told(metal)
    assert left is not None
    assert left > 0


@pytest.mark.slow
def test_a_temperature_that_swings_with_long_steps_is_silent() -> None:
    """Steps of twenty seconds under a cold plate, read each ten: four kelvins to and fro."""
    node = cold(10.0, 3.0, left_k=1.0)
    node.watts = lambda _: 690.0 - 145.0 * (round(node.seconds / 10) % 2)
    assert node.run(20 * MINUTE) == []


def test_the_temperature_of_the_memory_is_not_shown_as_evidence() -> None:
    """It is not judged: nobody can read how far it is from its limit."""
    assert "memory_temperature_celsius" not in {
        shown.column for shown in PAGES[ThermalImminent.name].shows
    }
