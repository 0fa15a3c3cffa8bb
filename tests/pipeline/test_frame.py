"""Frames: identity, missing values, exact counters, frozen arrays."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from pipeline.align import Rows
from pipeline.frame import Device, frame_of
from tests.fakes import FakeClock, gpu, gpu_frame


def test_zero_is_a_value_and_missing_is_not() -> None:
    """An idle GPU is not an absent one."""
    frame = gpu_frame(
        FakeClock(), {"power_milliwatts": 0, "energy_millijoules": 0}, {"power_milliwatts": None}
    )
    assert (frame.value("power_milliwatts", 0), frame.value("energy_millijoules", 0)) == (0.0, 0)
    assert (frame.value("power_milliwatts", 1), frame.value("energy_millijoules", 1)) == (
        None,
        None,
    )


def test_counters_keep_every_bit() -> None:
    """2^64 - 1 survives."""
    assert (
        gpu_frame(FakeClock(), {"energy_millijoules": 2**64 - 1}).value("energy_millijoules", 0)
        == 2**64 - 1
    )


def test_a_frame_is_frozen() -> None:
    """Nobody downstream can change what was read."""
    frame = gpu_frame(FakeClock(), {"power_milliwatts": 5})
    with pytest.raises(ValueError, match="read-only"):
        frame.gauges[0, 0] = 1.0


def test_frames_are_equal_bit_for_bit() -> None:
    """Missing equals missing; another value, device, attribute or time does not."""
    clock = FakeClock()
    one = gpu_frame(clock, {"power_milliwatts": 5, "energy_millijoules": 7})
    assert one == gpu_frame(clock, {"power_milliwatts": 5, "energy_millijoules": 7})
    assert one != gpu_frame(clock, {"power_milliwatts": 5, "energy_millijoules": 8})
    assert one != gpu_frame(clock, {"power_milliwatts": 5})
    assert one != frame_of(
        "gpu",
        [(gpu(serial="x"), {"power_milliwatts": 5, "energy_millijoules": 7})],
        one.time_ns,
        one.mono_ns,
    )
    clock.advance(1.0)
    assert one != gpu_frame(clock, {"power_milliwatts": 5, "energy_millijoules": 7})


def test_a_frame_survives_pickling() -> None:
    """Process pools get what was sent."""
    frame = gpu_frame(FakeClock(), {"power_milliwatts": 5, "energy_millijoules": 2**63 + 1})
    assert pickle.loads(pickle.dumps(frame)) == frame  # noqa: S301 - our own bytes


def test_wrong_shapes_are_refused_with_the_column_blocks_name() -> None:
    """A block of the wrong shape names itself."""
    frame = gpu_frame(FakeClock(), {})
    with pytest.raises(ValueError, match="gauges has shape"):
        type(frame)(
            frame.schema,
            0,
            0,
            frame.devices,
            np.zeros((1, 1)),
            frame.counters.copy(),
            frame.observed.copy(),
            frame.sampled_ns.copy(),
        )


def test_an_unknown_column_is_an_error() -> None:
    """A typo does not read as missing."""
    with pytest.raises(KeyError):
        gpu_frame(FakeClock(), {"powr_milliwatts": 5})


def test_rows_keep_their_place_when_devices_leave_come_and_change() -> None:
    """A device that leaves keeps its row, a new one is appended, a new
    attribute makes a new generation.
    """
    rows = Rows()
    assert rows.place([gpu(0), gpu(1)]) == [0, 1]
    generation = rows.devices
    assert rows.place([gpu(1)]) == [1]
    assert rows.devices is generation
    assert rows.place([gpu(2), gpu(0)]) == [2, 0]
    assert rows.place([gpu(1, driver_version="580")]) == [1]
    assert rows.devices[1].attributes["driver_version"] == "580"


def test_a_device_is_its_identity() -> None:
    """The same UUID at another index is the same device; another host's is not."""
    assert Device("n1", "gpu", "G", {"index": "0"}) == Device("n1", "gpu", "G", {"index": "5"})
    assert Device("n1", "gpu", "G") != Device("n2", "gpu", "G")
