"""Thermal resistance that grows: the same watts make one GPU warmer than they used to, whatever
room, load and neighbours do.
"""

from __future__ import annotations

from copy import deepcopy

import pytest

from detectors.thermal import ThermalResistance
from detectors.thermal.resistance import FAULT
from pipeline.frame import Device
from tests.detectors.feed import open_findings
from tests.detectors.thermal.heat import Metal

pytestmark = pytest.mark.slow  # each makes a simulated node or a store

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
BAD = 6


def two_loads(metal: Metal) -> None:
    """Four hours at 600 W and two at 350 W, in turns."""
    metal.watts = lambda _: 600.0 if metal.seconds % (6 * HOUR) < 4 * HOUR else 350.0


@pytest.fixture(scope="module")
def learnt() -> Metal:
    """A node that has worked for six days."""
    node = Metal(ThermalResistance(), 8, period_s=60.0)
    two_loads(node)
    assert node.run(6 * DAY) == []
    return node


@pytest.fixture
def metal(learnt: Metal) -> Metal:
    """A copy of it for one test."""
    node = deepcopy(learnt)
    two_loads(node)
    node.warmer = lambda _: 0.0
    return node


def test_a_step_of_forty_percent_is_a_ticket_within_two_hours(metal: Metal) -> None:
    """A cold plate that came loose (F10)."""
    metal.worse[metal.gpus[BAD]] = 1.4
    findings = metal.run(2 * HOUR)
    assert open_findings(findings) == [("gpu", "GPU-n1-6", FAULT, "ticket")]
    assert findings[0].value > 3.0


def test_paste_that_ages_over_days_is_a_ticket(metal: Metal) -> None:
    """40 % within five days: slow, but not so slow that it is learnt (F11)."""
    findings = []
    for day in range(1, 6):
        metal.worse[metal.gpus[BAD]] = 1 + 0.08 * day
        findings += metal.run(DAY)
    assert open_findings(findings) == [("gpu", "GPU-n1-6", FAULT, "ticket")]


def test_five_percent_are_silent(metal: Metal) -> None:
    """1.7 K at full load is within what sensors and air do."""
    metal.worse[metal.gpus[BAD]] = 1.05
    assert metal.run(DAY) == []


def test_a_room_that_warms_up_is_silent(metal: Metal) -> None:
    """6 K on all neighbours."""
    metal.warmer = lambda _: 6.0
    assert metal.run(DAY) == []


def test_another_load_is_silent(metal: Metal) -> None:
    """A power that none of them has had before: each GPU's own line says what it makes."""
    metal.watts = lambda _: 690.0
    assert metal.run(DAY) == []


def test_one_gpu_with_more_work_than_its_neighbours_is_silent(metal: Metal) -> None:
    """Its own line is compared, not its temperature."""
    metal.watts = lambda gpu: 650.0 if gpu == metal.gpus[BAD] else 350.0
    assert metal.run(DAY) == []


def test_restless_load_teaches_and_says_nothing(metal: Metal) -> None:
    """Power that changes by half each minute: temperature lags, so no minute is judged."""
    metal.worse[metal.gpus[BAD]] = 1.4
    metal.watts = lambda _: 600.0 if round(metal.seconds / 60) % 2 else 300.0
    assert metal.run(12 * HOUR) == []


def test_it_ends_within_two_hours_of_the_repair(metal: Metal) -> None:
    """Five quarters of an hour below half of the limit."""
    metal.worse[metal.gpus[BAD]] = 1.4
    metal.run(3 * HOUR)
    metal.worse[metal.gpus[BAD]] = 1.0
    assert [f.phase for f in metal.run(2 * HOUR)] == ["cleared"]


def test_it_does_not_learn_the_fault_but_accepts_it_after_a_week(metal: Metal) -> None:
    """Nobody changed the paste."""
    metal.worse[metal.gpus[BAD]] = 1.4
    metal.run(3 * HOUR)
    assert metal.run(6 * DAY) == []
    findings = metal.run(1.5 * DAY)
    assert [f.phase for f in findings] == ["cleared"]
    assert "new normal" in findings[0].evidence[-1]


def test_nobody_notices_a_restart_in_the_middle(metal: Metal) -> None:
    """Half an hour into the fault its memory moves to a new detector, which reports and ends
    it at the same instants.
    """
    metal.worse[metal.gpus[BAD]] = 1.4
    metal.run(0.5 * HOUR)
    other = deepcopy(metal)
    two_loads(other)
    restarted = ThermalResistance()
    restarted.restore(metal.feed.detector.state())  # type: ignore[attr-defined] # it remembers
    other.feed.detector = restarted
    findings = []
    for node in (metal, other):
        updates = node.run(2 * HOUR)
        node.worse[node.gpus[BAD]] = 1.0
        findings.append([*updates, *node.run(2 * HOUR)])
    assert findings[0] == findings[1]
    assert [f.phase for f in findings[0]] == ["onset", "cleared"]


def test_a_gpu_is_not_judged_in_its_first_five_days() -> None:
    """Its own line is not known yet."""
    node = Metal(ThermalResistance(), 8, period_s=60.0)
    two_loads(node)
    node.run(2 * DAY)
    node.worse[node.gpus[BAD]] = 1.4
    assert node.run(2 * DAY) == []


def test_marks_of_no_value_are_no_heat(metal: Metal) -> None:
    """A sentinel of some GPU in every reading (H18)."""
    metal.damage = {"temperature_celsius": 2147483632.0, "power_milliwatts": -1000.0}
    assert metal.run(DAY) == []


def test_the_neighbours_of_a_bad_gpu_are_not_blamed(metal: Metal) -> None:
    """The median of the others does not move with one of them."""
    metal.worse[metal.gpus[BAD]] = 2.0
    found: set[Device] = {finding.device for finding in metal.run(DAY)}
    assert found == {metal.gpus[BAD]}
