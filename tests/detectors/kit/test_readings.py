"""What detectors believe of a reading: marks of no value are none, wherever they come from; a duty
is what the driver counted.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from detectors.kit.readings import duty, reading
from pipeline.clock import SECOND_NS
from pipeline.frame import Device, Frame, frame_of, schema_of
from pipeline.rates import Rates


def gpus(name: str, *values: float | None, kind: str = "gpu") -> Frame:
    """A frame of one column."""
    return frame_of(
        kind, [(Device("n1", kind, str(i)), {name: value}) for i, value in enumerate(values)], 0, 0
    )


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("gpu_utilization_percent", [0.0, 100.0], [-1.0, 101.0, 4294967295.0]),
        ("power_milliwatts", [0.0, 1_400_000.0], [-1000.0, 4294967295.0, 2147483632.0]),
        ("temperature_celsius", [5.0, 110.0], [-1.0, 2147483632.0, 140737488355328.0]),
        ("temperature_margin_celsius", [-12.0, 60.0], [-2147483648.0, 140737488355329.0]),
        ("sm_clock_megahertz", [120.0, 2600.0], [0.0, 140737488355328.0, np.inf]),
        ("pcie_width_current", [1.0, 16.0], [0.0, 4294967295.0]),
        ("pcie_generation_current", [1.0, 6.0], [0.0, 4294967295.0]),
        ("recovery_action", [0.0, 7.0], [-1.0, 2147483632.0, 2.0**63, np.inf, -np.inf]),
        (
            "rate_bits_per_second",
            [0.0, 3.2e12],
            [-1.0, 140737488355328.0, 2.0**63, np.inf, -np.inf],
        ),
        ("width_lanes", [1.0, 12.0], [-1.0, 2147483632.0, np.inf]),
    ],
)
def test_only_what_hardware_can_show_is_a_reading(
    name: str, good: list[float], bad: list[float]
) -> None:
    """Values at both ends are kept, marks and nonsense become NaN."""
    kind = "ib_port" if name in schema_of("ib_port").gauge_row else "gpu"
    read = reading(gpus(name, *good, *bad, None, kind=kind), name)
    assert read.tolist()[: len(good)] == good
    assert np.isnan(read[len(good) :]).all()


def counted(*totals: int | None, mask: float | None = None) -> float:
    """The duty after counter readings ten seconds apart, of which the last is asked for."""
    rates: Rates | None = None
    for number, total in enumerate(totals):
        values = {"throttled_hw_thermal_nanoseconds": total, "clock_event_reasons": mask}
        now = number * 10 * SECOND_NS
        frame = frame_of("gpu", [(Device("n1", "gpu", "G"), values)], now, now)
        rates = rates or Rates(frame.schema, 10.0)
        frame = rates.add(frame)
    return float(duty(frame, "hw_thermal")[0])


def test_a_duty_is_the_share_of_the_time_that_was_counted() -> None:
    """Two of ten seconds."""
    assert counted(SECOND_NS, 3 * SECOND_NS) == pytest.approx(0.2)


def test_a_duty_beyond_the_time_is_none() -> None:
    """A clock that stepped, or a counter that did."""
    assert np.isnan(counted(SECOND_NS, 30 * SECOND_NS))


@pytest.mark.parametrize(("mask", "share"), [(0x48, 1.0), (0x4, 0.0)])
def test_without_a_counter_the_mask_says_whether_it_is_active_now(
    mask: float, share: float
) -> None:
    """Drivers that do not count in nanoseconds."""
    assert counted(None, mask=mask) == share


def test_the_counter_goes_before_the_mask() -> None:
    """A bit that is set at the instant of the reading does not make a duty of one."""
    assert counted(SECOND_NS, SECOND_NS, mask=0x48) == 0.0


@pytest.mark.parametrize(
    "mask", [None, -1.0, 2147483632.0, 140737488355328.0, 2.0**63, np.inf, -np.inf]
)
def test_nothing_read_is_no_duty(mask: float | None) -> None:
    """Neither counter nor mask, or a mask that is a mark of no value: taken for bits it would
    mean every reason at once.
    """
    assert np.isnan(counted(None, mask=mask))


def test_a_frame_that_has_not_passed_the_engine_is_refused() -> None:
    """Increments are made in one place."""
    with pytest.raises(ValueError, match="engine"):
        duty(gpus("clock_event_reasons", 0.0), "hw_thermal")


def test_a_reading_is_made_once_and_not_to_be_written_to() -> None:
    """All detectors get the same array of a frame."""
    values = [
        (Device("n1", "gpu", x), {"gpu_utilization_percent": n}) for n, x in ((97, "a"), (400, "b"))
    ]
    frame = frame_of("gpu", values, 0, 0)
    first = reading(frame, "gpu_utilization_percent")
    assert reading(frame, "gpu_utilization_percent") is first
    assert not first.flags.writeable


def test_a_frame_with_other_values_has_readings_of_its_own() -> None:
    """Nothing that was made of the one it was made from."""
    frame = frame_of("gpu", [(Device("n1", "gpu", "a"), {"gpu_utilization_percent": 97})], 0, 0)
    assert reading(frame, "gpu_utilization_percent").tolist() == [97.0]
    other = replace(frame, gauges=frame.gauges - 90.0)
    assert reading(other, "gpu_utilization_percent").tolist() == [7.0]
