"""Frames cut from patches: what varies as one block per tick, the rest once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.frame import Device, Frame, Schema, blank
from pipeline.small_arrays import all_true, any_true
from pipeline.store.decode.patches import Patch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


class Cells:
    """Values of one kind of device at some ticks, for ``rows`` rows.

    ``present`` (tick, row) is where something is, ``whole`` (tick,) where all rows are, ``time_us``
    and ``mono_ns`` (tick, row) when it was read.
    """

    def __init__(self, schema: Schema, ticks: int, rows: int, patches: Sequence[Patch]) -> None:
        self._schema, self._rows = schema, rows
        still = blank(schema.kind, (None,) * rows)
        self._gauges, self._counters, self._observed = still
        varying = self._settle(patches)
        self._at = [np.flatnonzero(mask) for mask in varying]
        gauges, counters = (len(at) for at in self._at)
        self._moving = np.full((ticks, gauges, rows), np.nan)
        self._counted = np.zeros((ticks, counters, rows), np.uint64)
        self._seen = np.zeros((ticks, counters, rows), np.bool_)
        self.present = np.zeros((ticks, rows), np.bool_)
        self.sampled_ns, self.time_us, self.mono_ns = (
            np.zeros((ticks, rows), np.int64) for _ in range(3)
        )
        for patch in patches:
            self._put(patch)
        # Mostly the same counters are observed all the time: one mask for all frames then.
        same = self._seen == self._observed[self._at[1]]
        self._one_mask = all_true(same | ~self.present[:, None])
        self.whole: Array = np.asarray(self.present.all(axis=1))

    def _settle(self, patches: Sequence[Patch]) -> tuple[Array, Array]:
        """Take in what does not vary; which gauges and counters do, if only from one patch to the
        next.
        """
        varying = [
            np.zeros(len(fields), np.bool_)
            for fields in (self._schema.gauges, self._schema.counters)
        ]
        placed = np.zeros(self._rows, np.bool_)
        for patch in patches:
            varying[0][list(patch.gauges)] = True
            varying[1][list(patch.counters)] = True
            rows, (gauges, counters, observed) = patch.rows, patch.still
            old = placed[rows]
            if any_true(old):
                before, now = self._gauges[:, rows[old]], gauges[:, old]
                alike = (before == now) | (np.isnan(before) & np.isnan(now))
                varying[0] |= ~alike.all(axis=1)
                at = rows[old]
                alike = (self._observed[:, at] == observed[:, old]) & (
                    self._counters[:, at] == counters[:, old]
                )
                varying[1] |= ~alike.all(axis=1)
            self._gauges[:, rows] = gauges
            self._counters[:, rows], self._observed[:, rows] = counters, observed
            placed[rows] = True
        return varying[0], varying[1]

    def _put(self, patch: Patch) -> None:
        """The values of a patch where they belong."""
        ticks, rows = _range(patch.ticks), _range(patch.rows)
        where: Any = (ticks, rows)
        if not isinstance(ticks, slice) and not isinstance(rows, slice):
            where = np.ix_(ticks, rows)
        self.present[where] = True
        for name in ("sampled_ns", "time_us", "mono_ns"):
            getattr(self, name)[where] = getattr(patch, name).T
        for place, i in enumerate(self._at[0].tolist()):
            block = self._moving[:, place]
            varies = i in patch.gauges
            block[where] = patch.gauges[i].T if varies else patch.still[0][i][None, :]
        for place, i in enumerate(self._at[1].tolist()):
            counted, seen = self._counted[:, place], self._seen[:, place]
            if i in patch.counters:
                values, mask = patch.counters[i]
                counted[where] = values.T
                seen[where] = True if mask is None else mask.T
            elif any_true(patch.still[2][i]):
                counted[where] = patch.still[1][i][None, :]
                seen[where] = patch.still[2][i][None, :]

    def frame(self, tick: int, time_ns: int, mono_ns: int, devices: tuple[Device, ...]) -> Frame:
        """The frame of a tick, of the first rows, as many as there are devices.

        Arrays are its own: a detector that keeps a frame keeps no more.
        """
        n = len(devices)
        whole = bool(self.whole[tick])
        gauges, counters = self._gauges[:, :n].copy(), self._counters[:, :n].copy()
        gauges[self._at[0]] = self._moving[tick, :, :n]
        counters[self._at[1]] = self._counted[tick, :, :n]
        observed = self._observed[:, :n]
        if not (whole and self._one_mask):
            observed = observed.copy()
            observed[self._at[1]] = self._seen[tick, :, :n]
        if not whole:
            gone = np.flatnonzero(~self.present[tick, :n])
            gauges[:, gone] = np.nan
            counters[:, gone] = 0
            observed[:, gone] = False
        return Frame(
            self._schema,
            time_ns,
            mono_ns,
            devices,
            gauges,
            counters,
            observed,
            self.sampled_ns[tick, :n].copy(),
        )


def _range(numbers: NDArray[np.int64]) -> slice | NDArray[np.int64]:
    """Consecutive numbers as a slice."""
    if numbers[-1] - numbers[0] == len(numbers) - 1 and all_true(np.diff(numbers) == 1):
        return slice(int(numbers[0]), int(numbers[-1]) + 1)
    return numbers
