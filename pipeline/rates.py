"""Raw counters to increments: the one place where counters are subtracted, in integers. Never ``abs(delta)``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pipeline.align import Rows
from pipeline.frame import Device, Frame, Schema

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
        self._devices: tuple[Device, ...] = ()
        self._boot_id = ""
        self._at: NDArray[np.intp] | slice = slice(None)
        self._epoch: list[str] = []
        # Only counters that were ever observed are kept and computed: many in the catalogue belong to other hardware.
        self._live = np.zeros(0, np.intp)
        self._last = np.zeros((0, 0), np.uint64)
        self._seen = np.zeros((0, 0), np.bool_)
        self._last_ns = np.zeros((0, 0), np.int64)
        self._p99 = np.zeros((0, 0))
        self._describe()

    def _describe(self) -> None:
        """What the catalogue says of the live counters, (counter, 1) each."""
        counters = [self._schema.counters[i] for i in self._live.tolist()]
        self._sticks = np.array([f.overflow == "sticks" for f in counters], np.bool_)[:, None]
        self._wraps = np.array([f.overflow == "wraps" for f in counters], np.bool_)[:, None]
        self._lifetime = np.array([f.lifetime for f in counters], np.bool_)[:, None]
        self._top = np.array([2**f.width - 1 for f in counters], np.uint64)[:, None]
        self._limit = np.array([f.maximum_per_second or np.inf for f in counters])[:, None] * TOLERANCE

    def add(self, frame: Frame, boot_id: str = "") -> Frame:
        """The same frame with its increments."""
        new_epoch = self._place(frame, boot_id)
        self._wake(frame.observed)
        if not len(self._live):
            nothing = np.zeros((0, len(frame.devices)))
            return replace(frame, increments=self._whole(nothing, nothing, nothing.astype(np.uint8)))
        now_ns = np.where(frame.sampled_ns > 0, frame.sampled_ns, frame.time_ns)[None, :]
        value, observed = frame.counters[self._live], frame.observed[self._live]
        last, seen = self._last[:, self._at], self._seen[:, self._at]
        known = observed & seen
        seconds = (now_ns - self._last_ns[:, self._at]) / 1e9
        delta = (value - last).astype(np.float64)
        quality = np.full(value.shape, OK, np.uint8)

        fell = known & (value < last)
        if fell.any():
            after, reset = self._fallen(value, last, fell, new_epoch)
            np.copyto(delta, after, where=fell)
            quality[reset] = RESET
        saturated = self._sticks & (value >= self._top)
        quality[saturated] = SATURATED
        delta[saturated & fell] = np.nan

        gap = (seconds > LONGEST_PERIODS * self._period) | (seconds < SHORTEST_PERIODS * self._period)
        quality[gap & (quality == OK)] = GAP
        with np.errstate(divide="ignore", invalid="ignore"):
            impossible = ~gap & (delta / seconds > self._limit)
        quality[impossible] = IMPLAUSIBLE
        delta[impossible] = np.nan

        quality[observed & ~seen] = FIRST
        quality[~observed] = MISSING
        delta[~known] = np.nan
        seconds[gap | ~known] = np.nan

        self._learn(delta, quality)
        self._keep(value, observed, now_ns)
        return replace(frame, increments=self._whole(delta, seconds, quality))

    def _fallen(
        self, value: NDArray[np.uint64], last: NDArray[np.uint64], fell: NDArray[np.bool_], new_epoch: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Increments of counters that show less than before, NaN where nobody knows, and which of them were reset."""
        wrapped = fell & self._wraps & ~new_epoch
        reset = fell & ~wrapped
        small = value <= np.maximum(RESET_FLOOR, RESET_FACTOR * self._p99[:, self._at])
        known = (new_epoch & ~self._lifetime) | small
        after = np.where(reset & known, value.astype(np.float64), np.nan)
        # 64-bit arithmetic wraps by itself; narrower counters are masked to their width.
        return np.where(wrapped, ((value - last) & self._top).astype(np.float64), after), reset

    def _place(self, frame: Frame, boot_id: str) -> NDArray[np.bool_]:
        """Find each device's column; which devices began a new life since their last frame, (1, device)."""
        if frame.devices is self._devices and boot_id == self._boot_id:
            return np.zeros((1, len(self._devices)), np.bool_)
        self._devices, self._boot_id = frame.devices, boot_id
        rows = self._rows.place(frame.devices)
        more = len(self._rows) - len(self._epoch)
        if more:
            for name in ("_last", "_seen", "_last_ns", "_p99"):
                setattr(self, name, np.pad(getattr(self, name), ((0, 0), (0, more))))
            self._epoch += [""] * more
        self._at = slice(len(rows)) if rows == list(range(len(rows))) else np.array(rows, np.intp)
        changed = np.zeros(len(rows), np.bool_)
        for i, (row, device) in enumerate(zip(rows, frame.devices, strict=True)):
            epoch = f"{boot_id}/{device.attributes.get('epoch', '')}"
            changed[i] = bool(self._epoch[row]) and self._epoch[row] != epoch
            self._epoch[row] = epoch
        return changed[None, :]

    def _wake(self, observed: NDArray[np.bool_]) -> None:
        """Make room for counters that are observed for the first time."""
        live: NDArray[np.bool_] = np.asarray(observed.any(axis=1))
        live[self._live] = True
        now = np.flatnonzero(live)
        if len(now) == len(self._live):
            return
        place = np.searchsorted(now, self._live)
        for name in ("_last", "_seen", "_last_ns", "_p99"):
            before = getattr(self, name)
            after = np.zeros((len(now), before.shape[1]), before.dtype)
            after[place] = before
            setattr(self, name, after)
        self._live = now
        self._describe()

    def _learn(self, delta: NDArray[np.float64], quality: NDArray[np.uint8]) -> None:
        """Track P99 of each counter's own increments: up by 0.99 of a step above it, down by 0.01 below."""
        p99 = self._p99[:, self._at]
        step = np.maximum(P99_STEP * np.maximum(p99, np.nan_to_num(delta)), 1.0)
        moved = np.where(delta > p99, p99 + 0.99 * step, np.maximum(p99 - 0.01 * step, 0.0))
        self._p99[:, self._at] = np.where((quality == OK) & np.isfinite(delta), moved, p99)

    def _keep(self, value: NDArray[np.uint64], observed: NDArray[np.bool_], now_ns: NDArray[np.int64]) -> None:
        self._last[:, self._at] = np.where(observed, value, self._last[:, self._at])
        self._last_ns[:, self._at] = np.where(observed, now_ns, self._last_ns[:, self._at])
        self._seen[:, self._at] |= observed

    def _whole(self, delta: NDArray[np.float64], seconds: NDArray[np.float64], quality: NDArray[np.uint8]) -> Increments:
        """Increments of all counters of the schema: those that were never observed have none."""
        shape = (len(self._schema.counters), delta.shape[1])
        whole = Increments(np.full(shape, np.nan), np.full(shape, np.nan), np.full(shape, MISSING, np.uint8))
        whole.delta[self._live], whole.seconds[self._live], whole.quality[self._live] = delta, seconds, quality
        return whole
