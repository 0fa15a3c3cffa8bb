"""Readings as detectors take them: a value that no hardware can show is no reading."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from pipeline.frame import Frame
from pipeline.small_arrays import all_true, any_true

# By the unit that a field's name ends in: the lowest and the highest value that is believed. Far
# beyond any board sold; what lies outside are the marks of drivers and tools for "no value": -1,
# 2^32-1, 0x7ffffff0, 140737488355328.0 (nvml.h, dcgm_fields.h).
BOUNDS = {
    "percent": (0.0, 100.0),
    "celsius": (0.0, 150.0),
    "milliwatts": (0.0, 10e6),
    "megahertz": (1.0, 20e3),
    "generation": (1.0, 16.0),
    "width": (1.0, 64.0),
    "mode": (0.0, 255.0),
    "second": (0.0, 1e13),
    "action": (0.0, 255.0),
    "reasons": (0.0, 2.0**30),
}
# Bits of nvmlClocksEventReasons (nvml.h), by the name of the counter of
# nanoseconds that belongs to each.
REASON_BITS = {"power_cap": 0x4, "sw_thermal": 0x20, "hw_thermal": 0x40, "hw_power_brake": 0x80}
IMPOSSIBLE = 1.05  # a duty above this is none: the counter was reset, or a clock stepped
MARGIN = (-150.0, 150.0)  # kelvin that are left until a limit: below 0 beyond it


def reading(frame: Frame, name: str) -> NDArray[np.float64]:
    """A gauge, (device,), NaN where it is not observed or cannot be true.

    May be the frame's own column: not to be written to.

    >>> from pipeline.frame import Device, frame_of
    >>> values = [
    ...     (Device("n1", "gpu", str(x)), {"gpu_utilization_percent": x})
    ...     for x in (97, None, 4294967295)
    ... ]
    >>> reading(frame_of("gpu", values, 0, 0), "gpu_utilization_percent").tolist()
    [97.0, nan, nan]
    """
    made = frame.made.get(name)
    if made is None:
        low, high = _bounds(name)
        x = frame.gauge(name)
        believed = (x >= low) & (x <= high)
        made = frame.made[name] = x if all_true(believed) else _kept(np.where(believed, x, np.nan))
    return made


def duty(frame: Frame, reason: str) -> NDArray[np.float64]:
    """Share of the time since the sample before in which a reason held the clocks back,
    (device,), NaN = not known.

    By the driver's counter of nanoseconds, which misses no pulse; where a driver has none 1 or 0,
    as the mask shows the reason now or not. KeyError for a reason that has no counter, ValueError
    for a frame that has not passed the engine. Not to be written to.
    """
    counter = f"throttled_{reason}_nanoseconds"
    made = frame.made.get(counter)
    if made is None:
        made = frame.made[counter] = _kept(_duty(frame, reason, counter))
    return made


def _duty(frame: Frame, reason: str, counter: str) -> NDArray[np.float64]:
    share = per_second(frame, counter) / 1e9
    share = np.where(share <= IMPOSSIBLE, np.clip(share, 0.0, 1.0), np.nan)
    mask = reading(frame, "clock_event_reasons")
    instead = ~frame.counter(counter)[1] & np.isfinite(mask)
    if any_true(instead):
        share[instead] = (mask[instead].astype(np.int64) & REASON_BITS[reason]) != 0
    return share


def per_second(frame: Frame, counter: str) -> NDArray[np.float64]:
    """Increase of a counter per second, (device,), NaN = none.

    ValueError for a frame that has not passed the engine.
    """
    if frame.increments is None:
        raise ValueError("increments are made by the engine; this frame has not passed it")
    return frame.increments.rate(frame.schema.counter_row[counter])


def _kept(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """For all who ask."""
    values.setflags(write=False)
    return values


@cache
def _bounds(name: str) -> tuple[float, float]:
    words = name.split("_")
    return (
        MARGIN
        if "margin" in words
        else next(BOUNDS[word] for word in reversed(words) if word in BOUNDS)
    )
