"""Minutes in which a GPU's load stood still: only then does its temperature say something about its cooling."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.block_clock import BlockMeans
from detectors.columns import Columns
from pipeline.frame import Frame

MINUTE_S = 60.0
LEAST_W = 150.0  # below it a GPU idles, and its temperature is its neighbours'
MOST_CHANGE = 0.15  # of the power of the minute before; beyond it heat still flows into or out of the metal
KELVIN_PER_WATT = 0.055  # of a heat sink or cold plate on an SXM board: the prior of a GPU that is not known yet


class Minute(NamedTuple):
    """Means of a minute, (row,), of temperature in C and power in W.

    ``steady``: in how many minutes in a row the power has stood still; ``loaded``: whether the GPU worked.
    """

    temperature: NDArray[np.float64]
    power: NDArray[np.float64]
    steady: NDArray[np.int64]
    loaded: NDArray[np.bool_]


class Steady:
    """Makes minutes of frames. Needs the columns of ``fills``."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self.means = BlockMeans(columns, ("temperature", "power"))

    @staticmethod
    def fills() -> dict[str, float | int]:
        """The columns it needs."""
        return {**BlockMeans.fills("temperature", "power"), "power_before": np.nan, "steady": 0}

    def sample(self, frame: Frame) -> None:
        """Take in a frame."""
        columns = self._columns
        columns.place(frame.devices)
        if frame.increments is None:
            raise ValueError("increments are made by the engine; this frame has not passed it")
        # Energy integrates: a sampled power shows one phase of the job's step, the same one on all its GPUs.
        drawn = frame.increments.rate(frame.schema.counter_row["energy_millijoules"]) / 1000
        has = frame.counter("energy_millijoules")[1]
        power = np.where(has, drawn, frame.gauge("power_milliwatts") / 1000)
        self.means.add(temperature=columns.wide(frame.gauge("temperature_celsius")), power=columns.wide(power))

    def minute(self) -> Minute:
        """The minute that ended."""
        columns, means = self._columns, self.means.close()
        power, before = means["power"], columns["power_before"]
        still = (np.abs(power - before) < MOST_CHANGE * before) & np.isfinite(means["temperature"])
        columns["steady"] = np.where(still, columns["steady"] + 1, 0)
        columns["power_before"] = power
        return Minute(means["temperature"], power, columns["steady"], power > LEAST_W)
