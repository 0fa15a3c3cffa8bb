"""Columns of pieces as rectangles of values: some devices at some ticks, one array per column."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.frame import Schema
from pipeline.small_arrays import all_true
from pipeline.store.decode.groups import Piece
from pipeline.store.files.columns import from_decimal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Longs = NDArray[np.int64]
    Array = NDArray[Any]


MAX_SETS = 256  # of columns that are known again: files of one model and version have the same few


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive rows of one device of a piece: where they go.

    ``rows`` are those of the piece, ``ticks`` (row,) that of each; ``row`` is the frames' row.
    """

    piece: Converted
    rows: slice | Longs
    ticks: Longs
    row: int


@dataclass(frozen=True, slots=True)
class Patch:
    """Values of devices at ticks.

    ``rows`` (d,) and ``ticks`` (t,) say where; ``gauges`` and ``counters`` have (d, t) each of the
    columns that vary, by number in the schema, counters with what was observed (None: all).
    ``still`` has the others: gauges (gauge, d), counters and observed (counter, d).
    """

    rows: Longs
    ticks: Longs
    gauges: Mapping[int, Array]
    counters: Mapping[int, tuple[Array, Array | None]]
    still: tuple[Array, Array, Array]
    sampled_ns: Array
    time_us: Array
    mono_ns: Array


class Converted:
    """A piece with its columns as numpy arrays, each made when it is first asked for."""

    def __init__(self, piece: Piece, schema: Schema) -> None:
        self._rows, self._made = piece.rows, dict[str, Any]()
        self.size = len(piece.rows)
        self.names = frozenset(piece.rows.column_names)
        fixed = piece.fixed
        self.gauges = np.array([fixed.get(f.name, np.nan) for f in schema.gauges], np.float64)
        self.counters = np.array([fixed.get(f.name, 0) for f in schema.counters], np.uint64)
        self.observed = np.array([f.name in fixed for f in schema.counters], np.bool_)

    def forget(self) -> None:
        """Make them again where they are asked for again."""
        self._made.clear()

    def gauge_rows(self, schema: Schema) -> frozenset[int]:
        """Numbers in the schema of the gauges that vary."""
        return _numbers(self.names, schema)[0]

    def counter_rows(self, schema: Schema) -> frozenset[int]:
        """Numbers in the schema of the counters that vary."""
        return _numbers(self.names, schema)[1]

    def longs(self, name: str) -> Array:
        """A column of integers without nulls."""
        if name not in self._made:
            self._made[name] = _longs(self._rows[name])
        found: Array = self._made[name]
        return found

    def gauge(self, name: str) -> Array:
        """A column of numbers, NaN for null; as exact as floats are."""
        if name not in self._made:
            self._made[name] = _gauge(self._rows[name])
        found: Array = self._made[name]
        return found

    def counter(self, name: str) -> tuple[Array, Array | None]:
        """A column of counters, and which were observed (None: all)."""
        if name not in self._made:
            self._made[name] = _counted(self._rows[name])
        found: tuple[Array, Array | None] = self._made[name]
        return found

    def some_longs(self, name: str, rows: slice | Longs) -> Array:
        """As ``longs``, of some rows."""
        few = self._few(name, rows)
        return self.longs(name)[rows] if few is None else _longs(few)

    def some_gauge(self, name: str, rows: slice | Longs) -> Array:
        """As ``gauge``, of some rows."""
        few = self._few(name, rows)
        return self.gauge(name)[rows] if few is None else _gauge(few)

    def some_counter(self, name: str, rows: slice | Longs) -> tuple[Array, Array | None]:
        """As ``counter``, of some rows."""
        few = self._few(name, rows)
        if few is not None:
            return _counted(few)
        values, valid = self.counter(name)
        return values[rows], None if valid is None else valid[rows]

    def _few(self, name: str, rows: slice | Longs) -> pa.ChunkedArray | None:
        """The rows of a column, where they are so few that others need not be converted."""
        if isinstance(rows, slice) and 2 * (rows.stop - rows.start) < self.size:
            return self._rows[name].slice(rows.start, rows.stop - rows.start)
        return None


@lru_cache(MAX_SETS)
def _numbers(names: frozenset[str], schema: Schema) -> tuple[frozenset[int], frozenset[int]]:
    """Rows in frames of these columns: of gauges, and of counters."""
    return (
        frozenset(number for name, number in schema.gauge_row.items() if name in names),
        frozenset(number for name, number in schema.counter_row.items() if name in names),
    )


def _longs(column: pa.ChunkedArray) -> Array:
    found: Array = column.cast(pa.int64()).to_numpy()
    return found


def _gauge(column: pa.ChunkedArray) -> Array:
    if pa.types.is_decimal(column.type):
        column = from_decimal(column)
    found: Array = column.to_numpy()
    return found


def _counted(column: pa.ChunkedArray) -> tuple[Array, Array | None]:
    valid = column.is_valid().to_numpy() if column.null_count else None
    values = pc.fill_null(column, 0) if column.null_count else column
    return values.cast(pa.uint64()).to_numpy(), valid


def runs(
    piece: Converted, rows: Longs, ticks: Longs, devices: Longs, placed: Longs
) -> Iterator[Run]:
    """Runs of these rows of a piece; they go to ``ticks`` (row,), negative where they go nowhere,
    and to the frame's row ``placed`` (row,). ``devices`` (row,) changes from one run to the next.
    """
    edges = np.flatnonzero(devices[1:] != devices[:-1]) + 1
    bounds = [0, *edges.tolist(), len(devices)]
    for begin, end in pairwise(bounds):
        at = np.flatnonzero(ticks[begin:end] >= 0)
        if len(at):
            at += begin
            own = rows[at]
            whole = int(own[-1] - own[0]) == len(own) - 1  # they rise
            some = slice(int(own[0]), int(own[-1]) + 1) if whole else own
            yield Run(piece, some, ticks[at], int(placed[at[0]]))


def patches(schema: Schema, found: Iterable[Run]) -> Iterator[Patch]:
    """Runs with the same ticks together, rows rising."""
    alike: dict[bytes, list[Run]] = defaultdict(list)
    for run in found:
        alike[run.ticks.tobytes()].append(run)
    for some in alike.values():
        # a row twice at one tick: files that overlap; the later one counts
        layers: list[dict[int, Run]] = [{}]
        for run in some:
            layer = next((layer for layer in layers if run.row not in layer), None)
            if layer is None:
                layer = {}
                layers.append(layer)
            layer[run.row] = run
        for layer in layers:
            yield _patch(schema, [layer[row] for row in sorted(layer)])


def _patch(schema: Schema, some: Sequence[Run]) -> Patch:
    names = frozenset[str]().union(*(run.piece.names for run in some))
    still = tuple(
        np.stack([getattr(run.piece, name) for run in some], axis=1)
        for name in ("gauges", "counters", "observed")
    )
    shape = (len(some), len(some[0].ticks))
    gauges: dict[int, Array] = {}
    for i, field in enumerate(schema.gauges):
        if field.name in names:
            gauges[i] = out = np.empty(shape)
            for d, run in enumerate(some):
                known = field.name in run.piece.names
                out[d] = run.piece.gauge(field.name)[run.rows] if known else still[0][i, d]
    counters: dict[int, tuple[Array, Array | None]] = {}
    for i, field in enumerate(schema.counters):
        if field.name in names:
            counters[i] = _counter(field.name, some, shape, still[1][i], still[2][i])
    longs = []
    for name in ("sampled_ns", "time", "mono_ns"):
        longs.append(out := np.empty(shape, np.int64))
        for d, run in enumerate(some):
            out[d] = run.piece.longs(name)[run.rows]
    rows = np.array([run.row for run in some], np.int64)
    return Patch(rows, some[0].ticks, gauges, counters, (still[0], still[1], still[2]), *longs)


def _counter(
    name: str, some: Sequence[Run], shape: tuple[int, int], still: Array, observed: Array
) -> tuple[Array, Array | None]:
    """Values and mask of one counter of these runs."""
    out, mask = np.empty(shape, np.uint64), np.ones(shape, np.bool_)
    for d, run in enumerate(some):
        if name in run.piece.names:
            values, valid = run.piece.counter(name)
            out[d] = values[run.rows]
            if valid is not None:
                mask[d] = valid[run.rows]
        else:
            out[d], mask[d] = still[d], observed[d]
    return out, None if all_true(mask) else mask
