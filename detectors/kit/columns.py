"""State arrays over devices: a row per device, for as long as the process runs;
new devices are appended.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.kit.roll import Roll
from detectors.kit.snapshot import Listed, State
from detectors.kit.stateful import Commit
from detectors.kit.steps import Steps
from pipeline.align import Rows
from pipeline.distinct import distinct
from pipeline.frame import Device, Frame
from pipeline.small_arrays import all_true, any_true, or_else

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


class Some(tuple[Device, ...]):  # noqa: SLOT001 - it has a whole and rows
    """The devices of some rows: ``rows`` of ``whole``."""

    whole: tuple[Device, ...]
    rows: NDArray[np.intp]

    @classmethod
    def of(cls, whole: tuple[Device, ...], rows: NDArray[np.intp]) -> Some:
        """Choose rows."""
        made = cls(whole[row] for row in rows.tolist())
        made.whole, made.rows = whole, rows
        return made


class _Level:
    """The rows that are in sight: all, or some of the level before (``pick``)."""

    def __init__(
        self, arrays: dict[str, NDArray[Any]], rows: NDArray[np.intp], pick: NDArray[np.intp]
    ) -> None:
        self.arrays, self.rows, self.pick = arrays, rows, pick
        self.devices: Some | None = None


class Columns:
    """Named arrays (row,) or (depth, row), filled for a new device with what is given here; its
    type is that of the fill.

    ``wide`` brings what a frame holds onto all rows, NaN for devices that are not in it: all state
    is then moved in one go.

    Where nodes are joined (detectors/kit/roll.py) all of this is about the rows of the nodes in
    sight.

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
        self._passed_s: NDArray[np.float64] | None = None
        self._at = np.zeros(0, np.intp)
        self._in_order = False
        self._of_row: NDArray[np.intp] | None = None  # where each row is placed; None: not all are
        self._roll: Roll | None = None
        self._base = self._arrays  # of all rows
        self._levels: list[_Level] = []  # of rows that are not all; the last is in sight
        self._placed_in: _Level | None = None
        self._listed: Listed | None = None  # devices, as a snapshot has them
        self._node = np.zeros(0, np.intp)  # of each row, all rows
        self._here: tuple[object, object, NDArray[np.intp]] = (None, None, self._node)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._arrays[name]

    def __setitem__(self, name: str, array: NDArray[Any]) -> None:
        old = self._arrays[name]
        if array.shape != old.shape:
            raise ValueError(f"column {name} has shape {old.shape}, not {array.shape}")
        # Rows of some nodes are written back in place: no column may be a view of another.
        self._arrays[name] = array.astype(old.dtype, copy=self._roll is not None)

    def __len__(self) -> int:
        return len(self._levels[-1].rows) if self._levels else len(self._rows)

    @property
    def devices(self) -> tuple[Device, ...]:
        """Device of each row, with its newest attributes; the same object until one changes."""
        if not self._levels:
            return self._rows.devices
        level = self._levels[-1]
        if level.devices is None or level.devices.whole is not self._rows.devices:
            level.devices = Some.of(self._rows.devices, level.rows)
        return level.devices

    @property
    def joined(self) -> bool:
        """Whether rows may be of several nodes, which have nothing in common."""
        return self._roll is not None

    @property
    def all_devices(self) -> tuple[Device, ...]:
        """As ``devices``, in sight or not."""
        return self._rows.devices

    def place(self, devices: tuple[Device, ...]) -> None:
        """From now on frames hold these devices."""
        level = self._levels[-1] if self._levels else None
        if devices is self._placed and level is self._placed_in:
            return
        at = self._rows.at(devices)
        more = len(self._rows) - self._length()
        if more > 0:
            self._grow(more)
        self._placed, self._placed_in = devices, level
        if level is not None:
            rows, at = at, np.searchsorted(level.rows, at)
            if not np.array_equal(level.rows[np.minimum(at, len(level.rows) - 1)], rows):
                raise ValueError("a frame has devices of nodes that are not in sight")
        self._at, count = at, len(self)
        self._in_order = np.array_equal(at, np.arange(count))
        self._of_row = None
        if not self._in_order and len(at) == count and len(distinct(at)) == count:
            self._of_row = np.argsort(at)

    def show(self, frame: Frame) -> None:
        """Place the devices of a frame, and take over which of their nodes it read."""
        self.place(frame.devices)
        self._passed_s = frame.passed_s

    def unread(self) -> NDArray[np.bool_] | None:
        """Rows whose node was not read in the frame that is shown, (row,); None where frames hold
        no row that they do not read.
        """
        return None if self._passed_s is None else np.isnan(self.wide(self._passed_s))

    def wide(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values of the placed devices, (..., device), on all rows, (..., row).

        May be the array itself: not to be written to.
        """
        if self._levels and self._levels[-1] is not self._placed_in:
            return self._deeper(values, np.nan)
        rows = len(self) if self._levels else len(self._rows)
        if values.shape[-1] == rows:
            if self._in_order:
                return values
            if self._of_row is not None:  # each row is placed: no need to fill
                return values.take(self._of_row, axis=-1)
        out = np.full((*values.shape[:-1], rows), np.nan)
        out[..., self._at] = values
        return out

    def present(self) -> NDArray[np.bool_]:
        """Which rows the placed devices are, (row,)."""
        if self._levels and self._levels[-1] is not self._placed_in:
            return np.asarray(self._deeper(np.ones(len(self._at), np.bool_), fill=False))
        if len(self._at) == len(self) and (self._in_order or self._of_row is not None):
            return np.ones(len(self), np.bool_)
        out = np.zeros(len(self), np.bool_)
        out[self._at] = True
        return out

    def row(self, device: Device) -> int | None:
        """Row of a device, None where it was never seen."""
        row = self._rows.row(device)
        if row is None or not self._levels:
            return row
        rows = self._levels[-1].rows
        place = int(np.searchsorted(rows, row))
        return place if place < len(rows) and rows[place] == row else None

    def sight(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Where rows of all are among those in sight, -1 where they are not; -1 stays -1."""
        if not self._levels:
            return rows
        place = np.full(len(self._rows) + 1, -1, np.intp)
        place[self._levels[-1].rows] = np.arange(len(self._levels[-1].rows))
        found: NDArray[np.intp] = place[rows]
        return found

    def rename(self, row: int, device: Device) -> None:
        """Give a row, of all, to another device of its node."""
        self._rows.rename(row, device)

    def each(self, values: Any) -> Any:
        """A value of each node in sight, (node,), on the rows, (row,); a single one as it is.

        Of steps (detectors/kit/steps.py) those of the rows, 0 where nothing was read.
        """
        if isinstance(values, Steps):
            return or_else(self.wide(values.rows)) if self._shows(values) else values.frame
        return values[self.nodes()] if isinstance(values, np.ndarray) else values

    def _shows(self, steps: Steps) -> bool:
        return self._passed_s is not None and len(steps.rows) == len(self._at)

    def times_ns(self, frame: Frame) -> Any:
        """When the node of each row read a frame, unix time, (row,); one number for one node."""
        times = frame.nodes
        if times is None or self._roll is None:
            return frame.time_ns
        return times.time_ns[self._roll.of_observation(self._node_now())]

    def monos_ns(self, frame: Frame) -> Any:
        """As ``times_ns``, by the monotonic clock."""
        times = frame.nodes
        if times is None or self._roll is None:
            return frame.mono_ns
        return times.mono_ns[self._roll.of_observation(self._node_now())]

    def _node_now(self) -> NDArray[np.intp]:
        return self.here(self._node)

    def nodes(self) -> NDArray[np.intp]:
        """The place among the nodes in sight of each row's node, (row,); 0 where none is joined."""
        roll = self._roll
        if roll is None:
            return np.zeros(len(self), np.intp)
        key = (roll.now, self.devices)
        if self._here[0] is not key[0] or self._here[1] is not key[1]:
            self._here = (*key, roll.places(self._node_now()))
        return self._here[2]

    def here(self, values: NDArray[Any]) -> NDArray[Any]:
        """What is kept of all rows, (..., all rows), on those in sight."""
        return values[..., self._levels[-1].rows] if self._levels else values

    def narrowed(self, values: NDArray[Any]) -> NDArray[Any]:
        """What was made of the rows that were in sight before, (..., row), on those now."""
        fits = values.shape[-1] == len(self)
        return values if fits else values[..., self._levels[-1].pick]

    def by_node(self, rows: NDArray[np.bool_]) -> int | NDArray[np.bool_]:
        """Whether a mask holds for any row; of joined nodes (node in sight,)."""
        if self._roll is None:
            return int(any_true(rows))
        found = np.zeros(len(self._roll.now), np.bool_)
        found[self.nodes()[rows]] = True
        return found

    def whole(self, name: str) -> NDArray[Any]:
        """A column of all rows, in sight or not, as it is now: a copy where some are not."""
        if not self._levels:
            return self._arrays[name]
        array = self._levels[-1].arrays[name]
        bottom: NDArray[Any] = self._base[name].copy()
        bottom[..., self._levels[-1].rows] = array
        return bottom

    def reset(self, rows: NDArray[np.bool_] | NDArray[np.intp], *names: str) -> None:
        """Give these rows of these columns (all, where none is named) their first values again."""
        whole = rows.dtype == np.bool_ and all_true(rows)  # much faster than choosing all of them
        for name in names or self._fills:
            self._arrays[name][... if whole else (..., rows)] = self._fills[name].fill

    def join(self, roll: Roll) -> None:
        """Hold the devices of several nodes. ValueError where devices are known already."""
        if len(self._rows):
            raise ValueError("a detector that has judged a node cannot hold several")
        self._roll = roll
        roll.add(self)

    def narrow(self) -> None:
        """Only rows of nodes in sight."""
        assert self._roll is not None  # noqa: S101 - the roll calls it
        before = self._levels[-1].rows if self._levels else np.arange(len(self._rows))
        if not self._levels:
            self._base = self._arrays
        pick = np.flatnonzero(self._roll.places(self._node[before]) >= 0)
        arrays = {name: array[..., pick] for name, array in self._arrays.items()}
        self._levels.append(_Level(arrays, before[pick], pick))
        self._arrays = arrays

    def widen(self) -> None:
        """The rows that were in sight before."""
        level = self._levels.pop()
        self._arrays = self._levels[-1].arrays if self._levels else self._base
        for name, array in level.arrays.items():
            self._arrays[name][..., level.pick] = array
        if self._placed_in is level:
            self._placed = None

    def state(self) -> State:
        """Identities and all columns."""
        devices = self._rows.devices
        if self._listed is None or self._listed.devices is not devices:  # dear where there are many
            self._listed = Listed.of(devices)
        return {
            **self._listed.state,
            **{_key(name): array for name, array in self._arrays.items()},
        }

    def prepare(self, state: State) -> Commit:
        """KeyError or ValueError where a column is missing or of another shape or type."""
        listed = Listed.read(state)
        devices = listed.devices
        arrays = {
            name: self._checked(name, state[_key(name)], len(devices)) for name in self._fills
        }

        def commit() -> None:
            self._rows, self._arrays, self._placed = Rows(devices), arrays, None
            self._listed = listed
            self._node = self._numbers(devices)

        return commit

    def _deeper(self, values: NDArray[Any], fill: float | bool) -> NDArray[Any]:
        """Onto the rows where the devices were placed, then those of them that are in sight."""
        depth = 0 if self._placed_in is None else self._levels.index(self._placed_in) + 1
        rows = self._levels[depth - 1].rows if depth else None
        count = len(self._rows) if rows is None else len(rows)
        out = np.full((*values.shape[:-1], count), fill)
        out[..., self._at] = values
        for level in self._levels[depth:]:
            out = out[..., level.pick]
        return out

    def _grow(self, more: int) -> None:
        """Rows for devices that are new: of nodes in sight, on all levels."""
        first = len(self._rows) - more
        new = np.arange(first, len(self._rows))
        for arrays in (*([self._base] if self._levels else []), *(x.arrays for x in self._levels)):
            self._append(arrays, more)
        if not self._levels:
            self._append(self._arrays, more)
        above = first
        for level in self._levels:
            level.pick = np.concatenate((level.pick, np.arange(above, above + more)))
            above = len(level.rows)
            level.rows = np.concatenate((level.rows, new))
        if self._roll is not None:
            added = self._numbers(self._rows.devices[first:])
            self._node = np.concatenate((self._node, added))

    def _append(self, arrays: dict[str, NDArray[Any]], more: int) -> None:
        for name, ring in self._fills.items():
            arrays[name] = np.concatenate((arrays[name], self._new(ring, more)), axis=-1)

    def _numbers(self, devices: tuple[Device, ...]) -> NDArray[np.intp]:
        roll = self._roll
        return np.array([-1 if roll is None else roll.number(d.host) for d in devices], np.intp)

    def _checked(self, name: str, array: NDArray[Any], n: int) -> NDArray[Any]:
        wanted = self._new(self._fills[name], n)
        if array.shape != wanted.shape or array.dtype != wanted.dtype:
            raise ValueError(
                f"column {name} is {array.dtype}{array.shape}, wanted {wanted.dtype}{wanted.shape}"
            )
        return array.copy()

    def _length(self) -> int:
        arrays = self._base if self._levels else self._arrays
        return next((array.shape[-1] for array in arrays.values()), len(self._rows))

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
    return iter(mask.nonzero()[0].tolist())


def _key(name: str) -> str:
    """The name of a column in a snapshot."""
    return f"column_{STORED_AS.get(name, name)}"
