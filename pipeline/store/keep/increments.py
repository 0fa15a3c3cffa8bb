"""Increments of whole stored series at once, by the rules of pipeline/rates.py: the same numbers,
column by column instead of frame by frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from pipeline.catalog import Field
from pipeline.rates import (
    MAX_PERIODS,
    MIN_PERIODS,
    P99_STEP,
    RESET_FACTOR,
    RESET_FLOOR,
    TOLERANCE,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=False, eq=False)
class Series:
    """Samples of many devices, one device after the other, each in the order in
    which the engine saw it.

    All arrays (row,).

    ``device`` int64 number of the device; ``at_ns`` int64, the source's own time of the sample or,
    where it gives none, the frame's; ``epoch`` int64 number of the device's epoch (boot,
    driver load); ``period_s`` of the source.
    """

    device: NDArray[np.int64]
    at_ns: NDArray[np.int64]
    epoch: NDArray[np.int64]
    period_s: float

    @cached_property
    def new_epoch(self) -> Bools:
        """Rows at which a device began a new epoch since its row before, (row,)."""
        changed = np.zeros(len(self.device), np.bool_)
        changed[1:] = (self.device[1:] == self.device[:-1]) & (self.epoch[1:] != self.epoch[:-1])
        return changed


def period_of(device: NDArray[np.int64], at_ns: NDArray[np.int64]) -> float:
    """Seconds between two samples of a device, as most of them are; 1 where no device has two."""
    steps = np.diff(at_ns)[np.diff(device) == 0]
    steps = steps[steps > 0]
    return float(np.median(steps)) / 1e9 if len(steps) else 1.0


def increments(
    series: Series, field: Field, value: NDArray[np.uint64], observed: Bools
) -> tuple[NDArray[np.uint64], Bools]:
    """(increment, whether there is one) of each row's counter since the device's observed
    row before, both (row,).

    Exact in integers. Rows without an increment: not observed, first, a fall that nothing explains,
    beyond what is possible.
    """
    delta, known = np.zeros(len(value), np.uint64), np.zeros(len(value), np.bool_)
    rows = np.flatnonzero(observed)
    rows, before = rows[1:], rows[:-1]
    same = series.device[rows] == series.device[before]
    rows, before = rows[same], before[same]
    delta[rows], known[rows] = _between(series, field, value, rows, before)
    return delta, known


def _between(
    series: Series,
    field: Field,
    value: NDArray[np.uint64],
    rows: NDArray[np.intp],
    before: NDArray[np.intp],
) -> tuple[NDArray[np.uint64], Bools]:
    """Increments between pairs of samples; names and order of the rules as in Rates.add."""
    last, now = value[before], value[rows]
    top, limit = np.uint64(2**field.width - 1), (field.maximum_per_second or np.inf) * TOLERANCE
    new_epoch = series.new_epoch[rows]
    seconds = (series.at_ns[rows] - series.at_ns[before]) / 1e9
    fell = now < last
    wrapped = fell & ~new_epoch if field.overflow == "wraps" else np.zeros(len(rows), np.bool_)
    reset = fell & ~wrapped
    delta = np.where(wrapped, (now - last) & top, now - last)
    saturated = now >= top if field.overflow == "sticks" else np.zeros(len(rows), np.bool_)
    gap = (seconds > MAX_PERIODS * series.period_s) | (seconds < MIN_PERIODS * series.period_s)
    with np.errstate(divide="ignore", invalid="ignore"):
        learns = ~(reset | saturated | gap) & ~(delta / seconds > limit)
    explained = reset & ((new_epoch & (not field.lifetime)) | (now <= RESET_FLOOR))
    doubtful = np.flatnonzero(reset & ~explained)
    if len(doubtful):
        p99 = _p99_before(doubtful, series.device[rows], delta, learns)
        explained[doubtful] = now[doubtful] <= RESET_FACTOR * p99
    delta = np.where(reset, now, delta)
    known = (~reset | explained) & ~(saturated & fell)
    with np.errstate(divide="ignore", invalid="ignore"):
        known &= gap | ~(delta / seconds > limit)
    return delta, known


def _p99_before(
    wanted: NDArray[np.intp], device: NDArray[np.int64], delta: NDArray[np.uint64], learns: Bools
) -> NDArray[np.float64]:
    """The P99 that Rates had tracked when it came to each wanted row: the same steps, for the
    few series that need it.
    """
    found = np.zeros(len(wanted))
    for place, row in enumerate(wanted.tolist()):
        begin = int(np.searchsorted(device, device[row]))  # devices follow one another
        if place and wanted[place - 1] >= begin:
            begin, p99 = int(wanted[place - 1]), float(found[place - 1])
        else:
            p99 = 0.0
        for seen in delta[begin:row][learns[begin:row]].astype(np.float64).tolist():
            step = max(P99_STEP * max(p99, seen), 1.0)
            p99 = p99 + 0.99 * step if seen > p99 else max(p99 - 0.01 * step, 0.0)
        found[place] = p99
    return found
