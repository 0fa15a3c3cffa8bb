"""State arrays over devices: a row per device, for as long as the process runs;
new devices are appended.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.kit.snapshot import State, device_state, devices_from
from detectors.kit.stateful import Commit
from pipeline.align import Rows
from pipeline.frame import Device

# Columns whose name in a snapshot is not that in the code: snapshots of earlier versions have them.
STORED_AS = {
    "lasted": "stood",
    "set": "stands",
    "reported": "told",
    "reported_level": "said",
    "degraded": "sick",
}


class Ring(NamedTuple):
    """A column with several values per device: its array is (depth, row)."""

    depth: int
    fill: bool | int | float


class Columns:
    """Named arrays (row,) or (depth, row), filled for a new device with what is given here; its
    type is that of the fill.

    ``wide`` brings what a frame holds onto all rows, NaN for devices that are not in it: all state
    is then moved in one go.

    >>> a, b = (Device("n1", "gpu", x) for x in "ab")
    >>> columns = Columns(S=0.0, n=0)
    >>> columns.place((a,)), columns.place((b, a))
    (None, None)
    >>> columns.wide(np.array([1.0, 2.0])).tolist(), columns["n"].dtype == np.int64, len(columns)
    ([2.0, 1.0], True, 2)
    """

    def __init__(self, **fills: bool | float | Ring) -> None:
        self._fills = {
            name: fill if isinstance(fill, Ring) else Ring(0, fill) for name, fill in fills.items()
        }
        self._rows = Rows()
        self._arrays = {name: self._new(ring, 0) for name, ring in self._fills.items()}
        self._placed: tuple[Device, ...] | None = None
        self._at = np.zeros(0, np.intp)
        self._in_order = False

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._arrays[name]

    def __setitem__(self, name: str, array: NDArray[Any]) -> None:
        old = self._arrays[name]
        if array.shape != old.shape:
            raise ValueError(f"column {name} has shape {old.shape}, not {array.shape}")
        self._arrays[name] = array.astype(old.dtype, copy=False)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def devices(self) -> tuple[Device, ...]:
        """Device of each row, with its newest attributes; the same object until one changes."""
        return self._rows.devices

    def place(self, devices: tuple[Device, ...]) -> None:
        """From now on frames hold these devices."""
        if devices is self._placed:
            return
        at = np.array(self._rows.place(devices), np.intp)
        more = len(self._rows) - self._length()
        if more > 0:
            for name, ring in self._fills.items():
                self._arrays[name] = np.concatenate(
                    (self._arrays[name], self._new(ring, more)), axis=-1
                )
        self._placed, self._at = devices, at
        self._in_order = np.array_equal(at, np.arange(len(self._rows)))

    def wide(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values of the placed devices on all rows, (row,).

        May be the array itself: not to be written to.
        """
        if self._in_order and len(values) == len(self._rows):
            return values
        out = np.full(len(self._rows), np.nan)
        out[self._at] = values
        return out

    def present(self) -> NDArray[np.bool_]:
        """Which rows the placed devices are, (row,)."""
        out = np.zeros(len(self._rows), np.bool_)
        out[self._at] = True
        return out

    def row(self, device: Device) -> int | None:
        """Row of a device, None where it was never seen."""
        return self._rows.row(device)

    def reset(self, rows: NDArray[np.bool_] | NDArray[np.intp], *names: str) -> None:
        """Give these rows of these columns (all, where none is named) their first values again."""
        whole = rows.dtype == np.bool_ and bool(rows.all())  # much faster than choosing all of them
        for name in names or self._fills:
            self._arrays[name][... if whole else (..., rows)] = self._fills[name].fill

    def state(self) -> State:
        """Identities and all columns."""
        return device_state(self._rows.devices) | {
            _key(name): array for name, array in self._arrays.items()
        }

    def prepare(self, state: State) -> Commit:
        """KeyError or ValueError where a column is missing or of another shape or type."""
        devices = devices_from(state)
        arrays = {
            name: self._checked(name, state[_key(name)], len(devices)) for name in self._fills
        }

        def commit() -> None:
            self._rows, self._arrays, self._placed = Rows(devices), arrays, None

        return commit

    def _checked(self, name: str, array: NDArray[Any], n: int) -> NDArray[Any]:
        wanted = self._new(self._fills[name], n)
        if array.shape != wanted.shape or array.dtype != wanted.dtype:
            raise ValueError(
                f"column {name} is {array.dtype}{array.shape}, wanted {wanted.dtype}{wanted.shape}"
            )
        return array.copy()

    def _length(self) -> int:
        return next((array.shape[-1] for array in self._arrays.values()), len(self._rows))

    @staticmethod
    def _new(ring: Ring, n: int) -> NDArray[Any]:
        kind = (
            np.bool_
            if isinstance(ring.fill, bool)
            else np.int64
            if isinstance(ring.fill, int)
            else np.float64
        )
        return np.full((ring.depth, n) if ring.depth else (n,), ring.fill, kind)


def rows_where(mask: NDArray[np.bool_]) -> Iterator[int]:
    """Row numbers where a mask holds, as plain integers: the only loop over devices
    that a detector should need.
    """
    return iter(np.flatnonzero(mask).tolist())


def _key(name: str) -> str:
    """The name of a column in a snapshot."""
    return f"column_{STORED_AS.get(name, name)}"
