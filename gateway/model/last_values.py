"""Last values of a few columns of all devices of one kind: what is shown, not what is judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from itertools import chain, count
from operator import is_

import numpy as np
from numpy.typing import NDArray

from pipeline.frame import Device, Frame

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "gpu": (
        "state",
        "gpu_utilization_percent",
        "power_milliwatts",
        "temperature_celsius",
        "temperature_margin_celsius",
        "temperature_slowdown_celsius",
        "memory_free_bytes",
        "nvlinks_up",
        "nvlinks_down",
    ),
    "ib_port": ("state", "expected", "rate_bits_per_second"),
}


class LastValues:
    """The newest observed value of each column and device; a row that was not observed keeps what
    it had. Arrays are replaced, never written again, so that a reader may keep them.

    ``values`` float32 (column, device), NaN = never observed; ``seen_ns`` int64 (device,): when
    the state was observed last, unix, 0 = never; ``gap_ns`` int64 (device,): since the time before.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.columns = COLUMNS[kind]
        self.devices: tuple[Device, ...] = ()
        self.values = np.zeros((len(self.columns), 0), np.float32)
        self.seen_ns = np.zeros(0, np.int64)
        self.gap_ns = np.zeros(0, np.int64)

    def with_(self, frame: Frame) -> LastValues:
        """With what a frame of this kind observed."""
        fresh = np.array([frame.gauge(name) for name in self.columns], np.float32)
        known = np.isfinite(fresh)
        if not known[0].any():
            return self  # of a source that reads something else of these devices
        made = self._placed(frame.devices) if frame.devices is not self.devices else copy(self)
        made.values = np.where(known, fresh, made.values)
        again = known[0] & (made.seen_ns > 0)
        made.gap_ns = np.where(again, frame.time_ns - made.seen_ns, made.gap_ns)
        made.seen_ns = np.where(known[0], frame.time_ns, made.seen_ns)
        return made

    @classmethod
    def joined(cls, kind: str, parts: Sequence[LastValues]) -> LastValues:
        """As they are now, one after the other; arrays and devices of a single one are shared."""
        if len(parts) == 1:
            return copy(parts[0])
        made = cls(kind)
        if parts:
            made.devices = tuple(chain.from_iterable(part.devices for part in parts))
            made.values = np.concatenate([part.values for part in parts], axis=1)
            made.seen_ns = np.concatenate([part.seen_ns for part in parts])
            made.gap_ns = np.concatenate([part.gap_ns for part in parts])
        return made

    def of(self, name: str) -> NDArray[np.float32]:
        """One column, (device,)."""
        column: NDArray[np.float32] = self.values[self.columns.index(name)]
        return column

    def chosen(self, rows: NDArray[np.intp]) -> LastValues:
        """Of these devices alone, by their rows."""
        made = copy(self)
        made.devices = tuple(self.devices[row] for row in rows.tolist())
        made.values, made.seen_ns = self.values[:, rows], self.seen_ns[rows]
        made.gap_ns = self.gap_ns[rows]
        return made

    def _placed(self, devices: tuple[Device, ...]) -> LastValues:
        """Each device keeps its values where others came or went."""
        before = _rows(self.devices, devices)
        new = np.flatnonzero(before < 0)
        if len(new):
            left = np.ones(len(self.devices), np.bool_)
            left[before[before >= 0]] = False
            equal = {self.devices[row]: row for row in np.flatnonzero(left).tolist()}
            before[new] = [equal.get(devices[row], -1) for row in new.tolist()]
        # The last row, which -1 takes, is that of a device that is new.
        blank = np.full((len(self.columns), 1), np.nan, np.float32)
        made = copy(self)
        made.values = np.concatenate([self.values, blank], axis=1)[:, before]
        made.seen_ns = np.append(self.seen_ns, 0)[before]
        made.gap_ns = np.append(self.gap_ns, 0)[before]
        made.devices = devices
        return made


def _rows(known: Sequence[Device], devices: Sequence[Device]) -> NDArray[np.intp]:
    """Rows in ``known`` of those that are the same objects, -1 for others: comparing 100,000
    devices by value takes 0.3 s.
    """
    if len(known) == len(devices):  # one host began again, with what it had
        same = np.fromiter(map(is_, known, devices), np.bool_, len(devices))
        return np.where(same, np.arange(len(devices)), -1)
    row_of = dict(zip(map(id, known), count(), strict=False))
    return np.fromiter((row_of.get(id(one), -1) for one in devices), np.intp, len(devices))
