"""How much the tasks of each node and job wait for input and output, processors and memory:
pressure stall information of the kernel (Documentation/accounting/psi.rst), as shares of the time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from detectors.kit.columns import Columns
from detectors.kit.readings import per_second
from pipeline.frame import Device, Frame
from pipeline.job_names import base

COUNTERS = {
    "io": ("pressure_io_some_microseconds", 1e6),
    "cpu": ("pressure_cpu_some_microseconds", 1e6),
    "memory": ("pressure_memory_full_microseconds", 1e6),
    "faults": ("major_page_faults", 1.0),
}
OF_JOB = {
    "io": ("pressure_io_some_microseconds", 1e6),
    "cpu": ("pressure_cpu_some_microseconds", 1e6),
    "memory": ("pressure_memory_full_microseconds", 1e6),
    "throttled": ("cpu_throttled_microseconds", 1e6),
}
MAX_AGE = 3  # blocks without a reading: what was last read is over

Floats = NDArray[np.float64]
Groups = Mapping[tuple[str, str], Sequence[int]]


def fills() -> dict[str, float]:
    """Columns of nodes that this needs."""
    return _fills(COUNTERS)


def job_fills() -> dict[str, float]:
    """Columns of jobs' control groups."""
    return _fills(OF_JOB)


def _fills(counters: Mapping[str, tuple[str, float]]) -> dict[str, float]:
    """Means of the running block, and of the last."""
    running = {f"{part}{name}": 0.0 for part in ("total_", "count_") for name in counters}
    return {**running, **dict.fromkeys(counters, np.nan), "age": 0.0}


class _Shares:
    """Means of ``counters`` over blocks, as shares of the time, in ``columns``."""

    def __init__(self, columns: Columns, counters: Mapping[str, tuple[str, float]]) -> None:
        self._columns, self._counters = columns, counters

    def sample(self, frame: Frame) -> None:
        """A frame of nodes or control groups; several sources give one, of which one has
        pressures, and a control group may be another job's than before.
        """
        if frame.increments is None:
            return
        columns = self._columns
        columns.show(frame)
        for name, (counter, per) in self._counters.items():
            share = columns.wide(per_second(frame, counter) / per)
            fresh = np.isfinite(share)
            columns[f"total_{name}"] = columns[f"total_{name}"] + np.where(fresh, share, 0.0)
            columns[f"count_{name}"] = columns[f"count_{name}"] + fresh

    def _close(self) -> None:
        """A block has passed: its means are there until the next has."""
        columns = self._columns
        columns["age"] = columns["age"] + 1
        for name in self._counters:
            total, count = columns[f"total_{name}"], columns[f"count_{name}"]
            mean = np.divide(total, count, out=columns[name].copy(), where=count > 0)
            columns[name] = mean
            columns["age"] = np.where(count > 0, 0.0, columns["age"])
            columns.reset(np.ones(len(columns), np.bool_), f"total_{name}", f"count_{name}")


class Pressure(_Shares):
    """Of the nodes in ``columns``."""

    def __init__(self, columns: Columns) -> None:
        super().__init__(columns, COUNTERS)

    def of(self, gpus: Sequence[Device]) -> dict[str, Floats]:
        """Each GPU's node's, (gpu,), NaN where it is not known; a block has passed."""
        self._close()
        columns = self._columns
        row = {device.host: number for number, device in enumerate(columns.devices)}
        rows = np.array([row.get(gpu.host, -1) for gpu in gpus], np.intp)
        known = rows >= 0
        found = {}
        for name in COUNTERS:
            column = np.where(columns["age"] <= MAX_AGE, columns[name], np.nan)
            found[name] = np.full(len(rows), np.nan)
            found[name][known] = column[rows[known]]
        return found


class JobPressure(_Shares):
    """Of the jobs' control groups in ``columns``."""

    def __init__(self, columns: Columns) -> None:
        super().__init__(columns, OF_JOB)

    def of(self, groups: Groups, gpus: int) -> dict[str, Floats]:
        """Those of each GPU's job, (gpu,), NaN where its control group is not known; a block has
        passed. ``groups`` are the rows of each job's GPUs on each host.
        """
        self._close()
        age = self._columns["age"]
        newest: dict[tuple[str, str], int] = {}
        for row, device in enumerate(self._columns.devices):
            key = (device.host, device.attributes.get("job", ""))
            if age[row] <= MAX_AGE and not age[newest.get(key, row)] < age[row]:
                newest[key] = row
        found = {name: np.full(gpus, np.nan) for name in OF_JOB}
        for (host, job), rows in groups.items():
            row_of_job = newest.get((host, job), newest.get((host, base(job))))
            if row_of_job is not None:
                for name, values in found.items():
                    values[list(rows)] = self._columns[name][row_of_job]
        return found
