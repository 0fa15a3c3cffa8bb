"""Raw counters to increments: the one place where counters are subtracted, in integers. Never ``abs(delta)``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pipeline.align import Rows
from pipeline.frame import Frame, Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Quality of one increment, small integers so that they fit an array.
OK, MISSING, FIRST, RESET, SATURATED, GAP, IMPLAUSIBLE = range(7)
QUALITIES = ("ok", "missing", "first", "reset", "saturated", "gap", "implausible")

# A gap: more than this many periods between samples gives no rate, less than the other is a double read.
LONGEST_PERIODS, SHORTEST_PERIODS = 10.0, 0.2
# A counter that fell to at most max(8, 3 x its own P99 increment) was reset, and what it shows came after the reset.
RESET_FLOOR, RESET_FACTOR = 8.0, 3.0
P99_STEP = 0.05  # relative step of the quantile tracker
TOLERANCE = 1.05  # above the physical maximum by this factor is a misread


@dataclass(frozen=True, slots=True, eq=False)
class Increments:
    """Increments of one frame's counters since each counter's own sample before.

    Shapes (counter, device): ``delta`` float64, NaN = none; ``seconds`` float64 between the two samples by the source's own clock,
    NaN where no rate may be made (first sample, gap); ``quality`` uint8, one of OK ... IMPLAUSIBLE.
    A SATURATED delta is a lower bound. A GAP delta is a true count over a longer time.
    """

    delta: NDArray[np.float64]
    seconds: NDArray[np.float64]
    quality: NDArray[np.uint8]

    def rate(self, row: int) -> NDArray[np.float64]:
        """Increase per second of one counter, (device,), NaN = none."""
        rate: NDArray[np.float64] = self.delta[row] / self.seconds[row]
        return rate


class Rates:
    """Keeps the last sample of each counter of one kind of device and makes the increments of the next frame.

    Rules and constants: facts of the field's counters (which wrap, stick or reset; DCGM and IBTA widths) in the catalogue;
    reset against glitch: a value below the one before is a reset with a true increment only if the device's epoch changed
    (boot, driver load) or the value is as small as a few increments of its own; otherwise the increment is missing.
    """

    def __init__(self, schema: Schema, period: float) -> None:
        self._schema = schema
        self._period = period
        self._rows = Rows()
        self._epoch: list[str] = []
        counters = schema.counters
        self._sticks = np.array([f.overflow == "sticks" for f in counters], np.bool_)[:, None]
        self._wraps = np.array([f.overflow == "wraps" for f in counters], np.bool_)[:, None]
        self._lifetime = np.array([f.lifetime for f in counters], np.bool_)[:, None]
        self._top = np.array([2**f.width - 1 for f in counters], np.uint64)[:, None]
        self._limit = np.array([f.maximum_per_second or np.inf for f in counters])[:, None] * TOLERANCE
        n = len(counters)
        self._last = np.zeros((n, 0), np.uint64)
        self._seen = np.zeros((n, 0), np.bool_)
        self._last_ns = np.zeros((n, 0), np.int64)
        self._p99 = np.zeros((n, 0))

    def add(self, frame: Frame, boot_id: str = "") -> Frame:
        """The same frame with its increments."""
        rows = self._place(frame)
        now_ns = np.where(frame.sampled_ns > 0, frame.sampled_ns, frame.time_ns)[None, :]
        new_epoch = self._epochs(frame, rows, boot_id)
        value, observed = frame.counters, frame.observed
        last, seen = self._last[:, rows], self._seen[:, rows]
        seconds = (now_ns - self._last_ns[:, rows]) / 1e9

        fell = value < last
        delta = np.where(fell, np.nan, (value - last).astype(np.float64))
        quality = np.full(value.shape, OK, np.uint8)

        wrapped = fell & self._wraps & ~new_epoch
        # 64-bit arithmetic wraps by itself; narrower counters are masked to their width.
        delta = np.where(wrapped, ((value - last) & self._top).astype(np.float64), delta)

        reset = fell & ~wrapped
        small = value <= np.maximum(RESET_FLOOR, RESET_FACTOR * self._p99[:, rows])
        known = (new_epoch & ~self._lifetime) | small
        delta = np.where(reset & known, value.astype(np.float64), delta)
        quality[reset] = RESET

        saturated = self._sticks & (value >= self._top)
        quality[saturated] = SATURATED
        delta = np.where(saturated & fell, np.nan, delta)

        gap = (seconds > LONGEST_PERIODS * self._period) | (seconds < SHORTEST_PERIODS * self._period)
        quality[gap & (quality == OK)] = GAP
        with np.errstate(divide="ignore", invalid="ignore"):
            impossible = ~gap & (delta / seconds > self._limit)
        quality[impossible] = IMPLAUSIBLE
        delta[impossible] = np.nan

        quality[observed & ~seen] = FIRST
        quality[~observed] = MISSING
        delta[~(observed & seen)] = np.nan
        seconds = np.where(gap | ~(observed & seen), np.nan, seconds)

        self._learn(rows, delta, quality)
        self._keep(rows, frame, now_ns)
        return replace(frame, increments=Increments(delta, seconds, quality))

    def _place(self, frame: Frame) -> NDArray[np.intp]:
        rows = np.array(self._rows.place(frame.devices), np.intp)
        more = len(self._rows) - self._last.shape[1]
        if more:
            for name in ("_last", "_seen", "_last_ns", "_p99"):
                setattr(self, name, np.pad(getattr(self, name), ((0, 0), (0, more))))
            self._epoch += [""] * more
        return rows

    def _epochs(self, frame: Frame, rows: NDArray[np.intp], boot_id: str) -> NDArray[np.bool_]:
        """Which devices began a new life since their last frame, (1, device)."""
        changed = np.zeros((1, len(rows)), np.bool_)
        for i, (row, device) in enumerate(zip(rows.tolist(), frame.devices, strict=True)):
            epoch = f"{boot_id}/{device.attributes.get('epoch', '')}"
            changed[0, i] = bool(self._epoch[row]) and self._epoch[row] != epoch
            self._epoch[row] = epoch
        return changed

    def _learn(self, rows: NDArray[np.intp], delta: NDArray[np.float64], quality: NDArray[np.uint8]) -> None:
        """Track P99 of each counter's own increments: up by 0.99 of a step above it, down by 0.01 below."""
        p99 = self._p99[:, rows]
        step = np.maximum(P99_STEP * np.maximum(p99, np.nan_to_num(delta)), 1.0)
        moved = np.where(delta > p99, p99 + 0.99 * step, np.maximum(p99 - 0.01 * step, 0.0))
        self._p99[:, rows] = np.where((quality == OK) & np.isfinite(delta), moved, p99)

    def _keep(self, rows: NDArray[np.intp], frame: Frame, now_ns: NDArray[np.int64]) -> None:
        observed = frame.observed
        self._last[:, rows] = np.where(observed, frame.counters, self._last[:, rows])
        self._last_ns[:, rows] = np.where(observed, now_ns, self._last_ns[:, rows])
        self._seen[:, rows] |= observed
