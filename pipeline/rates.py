"""Raw counters to increments: the one place where counters are subtracted, in integers.

Never ``abs(delta)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.align import Rows, came_from
from pipeline.distinct import distinct
from pipeline.frame import Device, Frame, Increments, Schema
from pipeline.small_arrays import all_true, any_true

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Quality of one increment, small integers so that they fit an array.
OK, MISSING, FIRST, RESET, SATURATED, GAP, IMPLAUSIBLE = range(7)
QUALITIES = ("ok", "missing", "first", "reset", "saturated", "gap", "implausible")

# A gap: more than this many periods between samples gives no rate, less than
# the other is a double read.
MAX_PERIODS, MIN_PERIODS = 10.0, 0.2
# In frames that keep rows of nodes which are read at a pace of their own (pipeline/roster.py) a
# period is at least the shorter of the last two steps between readings of the device's node.
# A counter that fell to at most max(8, 3 x its own P99 increment) was reset, and what it
# shows came after the reset.
RESET_FLOOR, RESET_FACTOR = 8.0, 3.0
P99_STEP = 0.05  # relative step of the quantile tracker
TOLERANCE = 1.05  # above the physical maximum by this factor is a misread
# Samples that are computed at once: what is in between stays in the processor's cache, where the
# arrays of a whole fleet would be fresh pages each time.
AT_ONCE = 65_536


class Rates:
    """Keeps the last sample of each counter of one kind of device and makes the
    increments of the next frame.

    Rules and constants: facts of the field's counters (which wrap, stick or reset; DCGM and IBTA
    widths) in the catalogue; reset against glitch: a value below the one before is a reset with a
    true increment only if the device's epoch changed (boot, driver load) or the value is as small
    as a few increments of its own; otherwise the increment is missing.
    """

    def __init__(self, schema: Schema, period: float) -> None:
        self._schema = schema
        self._period = period
        self._rows = Rows()
        self._devices: tuple[Device, ...] = ()
        self._boots: str | tuple[str, ...] = ""
        self._at: NDArray[np.intp] | slice = slice(None)
        self._epoch: list[str] = []
        # Only counters that were ever observed are kept and computed: many in the catalogue
        # belong to other hardware.
        self._live = np.zeros(0, np.intp)
        self._last = np.zeros((0, 0), np.uint64)
        self._seen = np.zeros((0, 0), np.bool_)
        self._last_ns = np.zeros((0, 0), np.int64)
        self._p99 = np.zeros((0, 0))
        self._passed_s = np.full(0, np.inf)  # each device's last step, inf before its second read
        self._describe()

    def _describe(self) -> None:
        """What the catalogue says of the live counters, (counter, 1) each, and which of them it
        says something special of.
        """
        counters = [self._schema.counters[i] for i in self._live.tolist()]
        sticks = np.array([f.overflow == "sticks" for f in counters], np.bool_)
        maximum = np.array([f.maximum_per_second or np.inf for f in counters])
        self._sticky, self._limited = np.flatnonzero(sticks), np.flatnonzero(np.isfinite(maximum))
        self._wraps = np.array([f.overflow == "wraps" for f in counters], np.bool_)[:, None]
        self._lifetime = np.array([f.lifetime for f in counters], np.bool_)[:, None]
        self._top = np.array([2**f.width - 1 for f in counters], np.uint64)[:, None]
        self._limit = maximum[self._limited, None] * TOLERANCE
        self._row = np.full(len(self._schema.counters), len(counters), np.intp)
        self._row[self._live] = np.arange(len(counters))

    def add(self, frame: Frame, boot_id: str = "") -> Frame:
        """The same frame with its increments."""
        if (
            not self._schema.counters
        ):  # nothing to subtract; and jobs come and go forever, so nobody is remembered
            return replace(frame, increments=self._blank(len(frame.devices)))
        new_epoch = self._place(frame, boot_id)
        self._wake(frame.observed)
        made = self._blank(len(frame.devices))
        if len(self._live):
            period = self._periods(frame)
            read_ns = frame.time_ns if frame.nodes is None else frame.nodes.row_times_ns
            now_ns = np.where(frame.sampled_ns > 0, frame.sampled_ns, read_ns)[None, :]
            rows = max(1, AT_ONCE // len(self._live))
            for begin in range(0, len(frame.devices), rows):
                part = slice(begin, min(begin + rows, len(frame.devices)))
                self._fill(
                    *(made, frame, part),
                    now_ns=now_ns[:, part],
                    new_epoch=new_epoch[:, part],
                    period=period[part] if isinstance(period, np.ndarray) else period,
                )
        return replace(frame, increments=made)

    def state(self) -> Mapping[str, NDArray[Any]]:
        """The last samples, as arrays without Python objects: (row,) of devices, (counter,) of
        field ids, (counter, row) of samples.
        """
        devices = self._rows.devices
        names = {
            name: np.array([getattr(d, name) for d in devices], np.str_)
            for name in ("host", "kind", "id")
        }
        counters = np.array([self._schema.counters[i].id for i in self._live.tolist()], np.int64)
        samples = {
            "last": self._last,
            "seen": self._seen,
            "last_ns": self._last_ns,
            "p99": self._p99,
        }
        epoch = np.array(self._epoch, np.str_)
        passed = {} if all_true(np.isinf(self._passed_s)) else {"passed_s": self._passed_s}
        return {**names, "epoch": epoch, "counter": counters, **samples, **passed}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from there; counters that this catalogue lacks are left out.

        KeyError or ValueError, unchanged, where it does not fit.
        """
        rows = Rows(
            Device(*row)
            for row in zip(*(state[name].tolist() for name in ("host", "kind", "id")), strict=True)
        )
        index = {field.id: i for i, field in enumerate(self._schema.counters)}
        known = sorted(
            (index[number], at)
            for at, number in enumerate(state["counter"].tolist())
            if number in index
        )
        at = [place for _, place in known]
        kinds: dict[str, type[np.generic]] = {
            "last": np.uint64,
            "seen": np.bool_,
            "last_ns": np.int64,
            "p99": np.float64,
        }
        samples = {name: state[name].astype(kind)[at] for name, kind in kinds.items()}
        shape = (len(state["counter"]), len(rows))
        if len(state["epoch"]) != len(rows) or any(state[name].shape != shape for name in samples):
            raise ValueError("samples that are not of these devices and counters")
        passed_s = state.get("passed_s", np.full(len(rows), np.inf)).astype(np.float64)
        if passed_s.shape != (len(rows),):
            raise ValueError("steps that are not of these devices")
        self._rows, self._epoch, self._devices = rows, state["epoch"].tolist(), ()
        self._passed_s = passed_s
        self._live = np.array([live for live, _ in known], np.intp)
        for name, array in samples.items():
            setattr(self, f"_{name}", array)
        self._describe()

    def _blank(self, devices: int) -> Increments:
        """Room for a row per live counter, and the row of those never observed."""
        shape = (len(self._live) + 1, devices)
        made = Increments(self._row, np.empty(shape), np.empty(shape), np.zeros(shape, np.uint8))
        made.deltas[-1], made.spans[-1], made.qualities[-1] = np.nan, np.nan, MISSING
        return made

    def _fill(
        self,
        made: Increments,
        frame: Frame,
        part: slice,
        *,
        now_ns: NDArray[np.int64],
        new_epoch: NDArray[np.bool_],
        period: float | NDArray[np.float64],
    ) -> None:
        """Increments of the live counters of some devices, which are rows of the frame.

        Nearly all stand still in nearly every frame: what is rare is only done where it happens.
        """
        at = part if isinstance(self._at, slice) else self._at[part]
        delta, seconds = made.deltas[:-1, part], made.spans[:-1, part]
        quality = made.qualities[:-1, part]
        value, observed = frame.counters[self._live, part], frame.observed[self._live, part]
        last, seen = self._last[:, at], self._seen[:, at]
        known = observed & seen
        np.divide(now_ns - self._last_ns[:, at], 1e9, out=seconds)
        np.copyto(delta, value - last)

        fell = known & (value < last)
        if any_true(fell):
            small = value <= np.maximum(RESET_FLOOR, RESET_FACTOR * self._p99[:, at])
            after, reset = self._fallen(value, last, fell, new_epoch, small)
            np.copyto(delta, after, where=fell)
            quality[reset] = RESET
        for row in self._sticky[
            (value[self._sticky] >= self._top[self._sticky]).any(axis=1)
        ].tolist():
            at_end = value[row] >= self._top[row]
            quality[row, at_end] = SATURATED
            delta[row, at_end & fell[row]] = np.nan

        gap = known & ((seconds > MAX_PERIODS * period) | (seconds < MIN_PERIODS * period))
        if any_true(gap):
            quality[gap & (quality == OK)] = GAP
        self._implausible(delta, seconds, quality, gap)

        if not all_true(known):
            quality[observed & ~seen] = FIRST
            np.copyto(quality, MISSING, where=~observed)
            np.copyto(delta, np.nan, where=~known)
        np.copyto(seconds, np.nan, where=gap | ~known)

        self._learn(delta, quality, at)
        self._keep(value, observed, now_ns, at)

    def _periods(self, frame: Frame) -> float | NDArray[np.float64]:
        """Seconds from sample to sample as a rule, of each device where nodes have their own."""
        now_s = frame.passed_s
        if now_s is None:
            return self._period
        last_s = self._passed_s[self._at]
        shorter = np.where(now_s > 0, np.minimum(last_s, now_s), last_s)
        self._passed_s[self._at] = np.where(now_s > 0, now_s, last_s)
        return np.maximum(self._period, np.where(np.isfinite(shorter), shorter, 0.0))

    def _implausible(
        self,
        delta: NDArray[np.float64],
        seconds: NDArray[np.float64],
        quality: NDArray[np.uint8],
        gap: NDArray[np.bool_],
    ) -> None:
        """Above what the hardware can do is a misread."""
        rows = self._limited
        with np.errstate(divide="ignore", invalid="ignore"):
            impossible = ~gap[rows] & (delta[rows] / seconds[rows] > self._limit)
        if any_true(impossible):
            row, device = np.nonzero(impossible)
            quality[rows[row], device] = IMPLAUSIBLE
            delta[rows[row], device] = np.nan

    def _fallen(
        self,
        value: NDArray[np.uint64],
        last: NDArray[np.uint64],
        fell: NDArray[np.bool_],
        new_epoch: NDArray[np.bool_],
        small: NDArray[np.bool_],
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Increments of counters that show less than before, NaN where nobody knows, and
        which of them were reset; ``small`` are values of a few increments of their own.
        """
        wrapped = fell & self._wraps & ~new_epoch
        reset = fell & ~wrapped
        known = (new_epoch & ~self._lifetime) | small
        after = np.where(reset & known, value.astype(np.float64), np.nan)
        # 64-bit arithmetic wraps by itself; narrower counters are masked to their width.
        return np.where(wrapped, ((value - last) & self._top).astype(np.float64), after), reset

    def _place(self, frame: Frame, boot_id: str) -> NDArray[np.bool_]:
        """Find each device's column; which devices began a new life since their
        last frame, (1, device).
        """
        boots = boot_id if frame.nodes is None else frame.nodes.boots
        if frame.devices is self._devices and boots == self._boots:
            return np.zeros((1, len(self._devices)), np.bool_)
        goes_on = isinstance(boots, str) and boots == self._boots
        origin = came_from(self._devices if goes_on else (), frame.devices)
        self._devices, self._boots = frame.devices, boots
        rows = self._rows.at(frame.devices)
        more = len(self._rows) - len(self._epoch)
        if more:
            for name in ("_last", "_seen", "_last_ns", "_p99"):
                setattr(self, name, np.pad(getattr(self, name), ((0, 0), (0, more))))
            self._epoch += [""] * more
            self._passed_s = np.concatenate((self._passed_s, np.full(more, np.inf)))
            rows = self._reordered(rows)
        in_order = np.array_equal(rows, np.arange(len(rows)))
        self._at = slice(len(rows)) if in_order else rows
        changed = np.zeros(len(rows), np.bool_)
        own = None if frame.nodes is None else frame.nodes.row_boots()
        for i in np.flatnonzero(origin < 0).tolist():
            row, boot = int(rows[i]), boot_id if own is None else own[i]
            epoch = f"{boot}/{frame.devices[i].attributes.get('epoch', '')}"
            changed[i] = bool(self._epoch[row]) and self._epoch[row] != epoch
            self._epoch[row] = epoch
        return changed[None, :]

    def _reordered(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Take over the order of a frame that holds all devices: what lies in another order is
        copied in each frame. Devices that came may lie among those that were there
        (pipeline/roster.py). Where they are now.
        """
        if len(distinct(rows)) != len(self._rows) or len(rows) != len(self._rows):
            return rows
        self._rows = Rows(self._devices)
        for name in ("_last", "_seen", "_last_ns", "_p99"):
            setattr(self, name, getattr(self, name)[:, rows])
        self._epoch = [self._epoch[row] for row in rows.tolist()]
        self._passed_s = self._passed_s[rows]
        return self._rows.at(self._devices)

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

    def _learn(
        self,
        delta: NDArray[np.float64],
        quality: NDArray[np.uint8],
        columns: slice | NDArray[np.intp],
    ) -> None:
        """Track P99 of each counter's own increments: up by 0.99 of a step
        above it, down by 0.01 below.

        A counter that never moved has 0, and keeps it while it stands still.
        """
        rows = np.flatnonzero((self._p99[:, columns] > 0).any(axis=1) | (delta > 0).any(axis=1))
        at = (rows[:, None], columns) if isinstance(columns, np.ndarray) else (rows, columns)
        p99, delta = self._p99[at], delta[rows]
        step = np.maximum(P99_STEP * np.fmax(p99, delta), 1.0)
        moved = np.where(delta > p99, p99 + 0.99 * step, np.maximum(p99 - 0.01 * step, 0.0))
        self._p99[at] = np.where((quality[rows] == OK) & np.isfinite(delta), moved, p99)

    def _keep(
        self,
        value: NDArray[np.uint64],
        observed: NDArray[np.bool_],
        now_ns: NDArray[np.int64],
        at: slice | NDArray[np.intp],
    ) -> None:
        for kept, new in ((self._last, value), (self._last_ns, now_ns), (self._seen, True)):
            if isinstance(at, slice):
                np.copyto(kept[:, at], new, where=observed)
            else:
                kept[:, at] = np.where(observed, new, kept[:, at])
