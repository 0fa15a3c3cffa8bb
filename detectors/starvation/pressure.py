"""How much the tasks of each node wait for input and output, processors and memory: pressure stall
information of the kernel (Documentation/accounting/psi.rst), as shares of the time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from detectors.kit.columns import Columns
from detectors.kit.readings import per_second
from pipeline.frame import Device, Frame

COUNTERS = {
    "io": ("pressure_io_some_microseconds", 1e6),
    "cpu": ("pressure_cpu_some_microseconds", 1e6),
    "memory": ("pressure_memory_full_microseconds", 1e6),
    "faults": ("major_page_faults", 1.0),
}
MAX_AGE = 3  # blocks without a reading of the host: what was last read is over

Floats = NDArray[np.float64]


def fills() -> dict[str, float]:
    """Columns of nodes that this needs."""
    return {**dict.fromkeys(COUNTERS, np.nan), "age": 0.0}


class Pressure:
    """Of the nodes in ``columns``."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def sample(self, frame: Frame) -> None:
        """A frame of nodes; several sources give one, of which one has pressures."""
        if frame.increments is None:
            return
        columns = self._columns
        columns.show(frame)
        for name, (counter, per) in COUNTERS.items():
            share = columns.wide(per_second(frame, counter) / per)
            fresh = np.isfinite(share)
            columns[name] = np.where(fresh, share, columns[name])
            columns["age"] = np.where(fresh, 0.0, columns["age"])

    def of(self, gpus: Sequence[Device]) -> dict[str, Floats]:
        """Each GPU's node's, (gpu,), NaN where it is not known; a block has passed."""
        columns = self._columns
        columns["age"] = columns["age"] + 1
        row = {device.host: number for number, device in enumerate(columns.devices)}
        rows = np.array([row.get(gpu.host, -1) for gpu in gpus], np.intp)
        known = rows >= 0
        found = {}
        for name in COUNTERS:
            column = np.where(columns["age"] <= MAX_AGE, columns[name], np.nan)
            found[name] = np.full(len(rows), np.nan)
            found[name][known] = column[rows[known]]
        return found
