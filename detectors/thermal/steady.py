"""Minutes of steady GPU load: only then does its temperature show how well it is cooled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.kit.block_clock import BlockMeans, StepClock
from detectors.kit.columns import Columns
from detectors.kit.readings import per_second, reading
from pipeline.frame import Frame

MINUTE_S = 60.0
MIN_W = 150.0  # below it a GPU idles, and its temperature is its neighbours'
# of the power of the minute before; beyond it heat still flows into or out of the metal
MAX_CHANGE = 0.15
# time constant of GPU and heat sink: temperature follows the power of the last
# minute, not of this second
TAU_S = 45.0
# of a heat sink or cold plate on an SXM board: the prior of a GPU that is not known yet
KELVIN_PER_WATT = 0.055

MEANS = ("temperature", "power", "made")


class Minute(NamedTuple):
    """Means of a minute, (row,), of temperature in C and of the power in W that made it: smoothed
    with the time constant of the metal.

    Without that, a checkpoint that begins in the last seconds of a minute looks like a GPU that is
    too warm for its power. ``steady``: in how many minutes in a row the power was steady;
    ``loaded``: whether the GPU worked.
    """

    temperature: NDArray[np.float64]
    power: NDArray[np.float64]
    steady: NDArray[np.int64]
    loaded: NDArray[np.bool_]


class Steady:
    """Makes minutes of frames. Needs the columns of ``fills``."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self.means, self.steps = BlockMeans(columns, MEANS), StepClock(MINUTE_S)

    @staticmethod
    def fills() -> dict[str, float | int]:
        """The columns it needs."""
        return {**BlockMeans.fills(*MEANS), "lag": np.nan, "power_before": np.nan, "steady": 0}

    def sample(self, frame: Frame, boot_id: str) -> None:
        """Take in a frame."""
        columns = self._columns
        columns.show(frame)
        # Energy integrates: a sampled power shows one phase of the job's step, the
        # same one on all its GPUs.
        drawn = per_second(frame, "energy_millijoules") / 1000
        has = frame.counter("energy_millijoules")[1]
        power = columns.wide(np.where(has, drawn, reading(frame, "power_milliwatts") / 1000))
        temperature = columns.wide(reading(frame, "temperature_celsius"))
        self.means.add(
            temperature=temperature, power=power, made=self._smoothed(power, frame, boot_id)
        )

    def _smoothed(
        self, power: NDArray[np.float64], frame: Frame, boot_id: str
    ) -> NDArray[np.float64]:
        columns = self._columns
        passed = self.steps.passed(frame, boot_id)
        seconds = columns.each(0.0 if passed is None else passed)
        lag = np.where(np.isnan(columns["lag"]), power, columns["lag"])
        lag += np.where(np.isnan(power), 0.0, (1 - np.exp(-seconds / TAU_S)) * (power - lag))
        columns["lag"] = lag
        return lag

    def minute(self) -> Minute:
        """The minute that ended."""
        columns, means = self._columns, self.means.close()
        power, before = means["power"], columns["power_before"]
        still = (np.abs(power - before) < MAX_CHANGE * before) & np.isfinite(means["temperature"])
        columns["steady"] = np.where(still, columns["steady"] + 1, 0)
        columns["power_before"] = power
        made = np.where(np.isnan(power), np.nan, means["made"])
        return Minute(means["temperature"], made, columns["steady"], power > MIN_W)
