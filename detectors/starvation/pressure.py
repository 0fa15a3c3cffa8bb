"""How much the tasks of each node and job wait for input and output, processors and memory:
pressure stall information of the kernel (Documentation/accounting/psi.rst), as shares of the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

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
    return {**dict.fromkeys(COUNTERS, np.nan), "age": 0.0}


def job_fills() -> dict[str, float]:
    """Columns of jobs' control groups: means of the running block, and of the last."""
    parts = ("total_", "count_")
    running = {f"{part}{name}": 0.0 for part in parts for name in OF_JOB}
    return {**running, **dict.fromkeys(OF_JOB, np.nan), "age": 0.0}


def _shares(
    columns: Columns, frame: Frame, counters: Mapping[str, tuple[str, float]]
) -> Iterator[tuple[str, Floats, NDArray[np.bool_]]]:
    """Name, share of the time and whether it was read, of each counter in a frame."""
    for name, (counter, per) in counters.items():
        share = columns.wide(per_second(frame, counter) / per)
        yield name, share, np.isfinite(share)


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
        for name, share, fresh in _shares(columns, frame, COUNTERS):
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


class JobPressure:
    """Of the jobs' control groups in ``columns``."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def sample(self, frame: Frame) -> None:
        """A frame of control groups; one may be another job's than before."""
        if frame.increments is None:
            return
        columns = self._columns
        columns.show(frame)
        for name, share, fresh in _shares(columns, frame, OF_JOB):
            columns[f"total_{name}"] = columns[f"total_{name}"] + np.where(fresh, share, 0.0)
            columns[f"count_{name}"] = columns[f"count_{name}"] + fresh

    def of(self, groups: Groups, gpus: int) -> dict[str, Floats]:
        """Those of each GPU's job, (gpu,), NaN where its control group is not known; a block has
        passed. ``groups`` are the rows of each job's GPUs on each host.
        """
        columns = self._columns
        columns["age"] = columns["age"] + 1
        for name in OF_JOB:
            total, count = columns[f"total_{name}"], columns[f"count_{name}"]
            mean = np.divide(total, count, out=columns[name].copy(), where=count > 0)
            columns[name] = mean
            columns["age"] = np.where(count > 0, 0.0, columns["age"])
            columns.reset(np.ones(len(columns), np.bool_), f"total_{name}", f"count_{name}")
        age = columns["age"]
        newest: dict[tuple[str, str], int] = {}
        for row, device in enumerate(columns.devices):
            key = (device.host, device.attributes.get("job", ""))
            if age[row] <= MAX_AGE and not age[newest.get(key, row)] < age[row]:
                newest[key] = row
        found = {name: np.full(gpus, np.nan) for name in OF_JOB}
        for (host, job), rows in groups.items():
            row_of_job = newest.get((host, job), newest.get((host, base(job))))
            if row_of_job is not None:
                for name, values in found.items():
                    values[list(rows)] = columns[name][row_of_job]
        return found
