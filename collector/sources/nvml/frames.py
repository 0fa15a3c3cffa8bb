"""Entries as NVML fills them, of all targets of a sweep at once, to frames.

The parent's side: numpy.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from collector.sources.nvml.codecs import CODECS
from collector.sources.nvml.wire import ENTRY
from pipeline.catalog import Field, fields_of
from pipeline.catalog.gpu_rows import GPM_DECIMALS
from pipeline.clock import SECOND_NS
from pipeline.frame import blank, schema_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

# nvmlFieldValue_t and nvmlGpmMetric_t: both 40 bytes.
_FIELD_VALUE = np.dtype(
    [
        ("id", "<u4"),
        ("scope", "<u4"),
        ("stamp_us", "<i8"),
        ("latency", "<i8"),
        ("type", "<i4"),
        ("code", "<i4"),
        ("value", "<u8"),
    ]
)
_GPM_METRIC = np.dtype([("id", "<u4"), ("code", "<i4"), ("value", "<f8"), ("info", "<u8", (3,))])
# nvmlValueType_t: double 0, unsigned int 1, unsigned long 2, unsigned long long 3, long long 4, int
# 5, unsigned short 6. The upper bytes of a short value are left over from the reading before.
_MASKS = np.array([0, 2**32 - 1, 2**64 - 1, 2**64 - 1, 2**64 - 1, 2**32 - 1, 2**16 - 1], np.uint64)
_DOUBLE, _LONG_LONG, _INT = 0, 4, 5
_STAMP_TOLERANCE_NS = 3600 * SECOND_NS  # a time further from the reading's own is no time
# DCGM drops core temperatures above 200 C as sensor garbage; margins are negative
_COLDEST, _HOTTEST = -100.0, 200.0


class Values(NamedTuple):
    """Values of one target: its row, the columns of its field and of its GPM entries, the
    reading's unix time, the entries.
    """

    kind: str
    row: int
    columns: tuple[str, ...]
    gpm: tuple[str, ...]
    time_ns: int
    entries: bytes


class Failure(NamedTuple):
    """A field that could not be read: of which kind and row, and NVML's return code."""

    kind: str
    row: int
    column: str
    code: int


@dataclass(slots=True)
class Block:
    """The arrays of one kind: as a frame's, shapes (column, device)."""

    gauges: NDArray[np.float64]
    counters: NDArray[np.uint64]
    observed: NDArray[np.bool_]
    sampled_ns: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the values of one layout of a sweep go: positions among all entries, and flat
    places in a block's arrays.
    """

    gauges: NDArray[np.intp]
    gauge_cells: NDArray[np.intp]
    counters: NDArray[np.intp]
    counter_cells: NDArray[np.intp]


@dataclass(slots=True)
class Layout:
    """What a sweep of these targets, rows and columns looks like; made once and kept
    while it stays the same.
    """

    key: tuple[object, ...]
    places: dict[str, _Place]
    columns: list[tuple[str, int, Sequence[str]]]  # kind, row and columns of entries in a row
    ends: list[int]  # where each of these ends
    starts: NDArray[np.intp]  # where each target's field entries begin
    coded: list[tuple[int, str]]  # entries that have a codec
    celsius: NDArray[np.intp]  # entries that are temperatures

    def owner(self, at: int) -> tuple[str, int, str]:
        """Kind, row and column of an entry."""
        place = bisect_right(self.ends, at)
        kind, row, columns = self.columns[place]
        return kind, row, columns[at - self.ends[place]]  # counted from the end


@dataclass(slots=True)
class Assembler:
    """Blocks from values. Keeps the layouts of the last kinds of sweep (with and without links)."""

    _layouts: dict[tuple[object, ...], Layout] = field(default_factory=dict)

    def blocks(
        self, values: Sequence[Values], devices: Mapping[str, int]
    ) -> tuple[dict[str, Block], list[Failure]]:
        """Arrays per kind, for as many devices as said, and what could not be read.

        ValueError where a target's entries are not whole.
        """
        blocks = {kind: _empty(kind, number) for kind, number in devices.items()}
        if not values:
            return blocks, []
        layout = self._layout(values, devices)
        fields = np.frombuffer(
            b"".join(v.entries[: ENTRY.size * len(v.columns)] for v in values), _FIELD_VALUE
        )
        metrics = np.frombuffer(
            b"".join(v.entries[ENTRY.size * len(v.columns) :] for v in values), _GPM_METRIC
        )
        if len(fields) + len(metrics) != layout.ends[-1]:
            raise ValueError(
                f"{len(fields)} field entries and {len(metrics)} GPM entries for "
                f"{layout.ends[-1]} columns"
            )
        numbers, naturals = _decode(fields)
        numbers = np.concatenate((numbers, _activity(metrics)))
        for at, codec in layout.coded:
            if np.isfinite(numbers[at]):
                numbers[at] = CODECS[codec](int(fields["value"][at]))
        _drop_garbage(numbers, layout.celsius)
        usable = np.concatenate((_natural(fields), np.zeros(len(metrics), np.bool_)))
        naturals = np.concatenate((naturals, np.zeros(len(metrics), np.uint64)))
        for kind, place in layout.places.items():
            block = blocks[kind]
            block.gauges.reshape(-1)[place.gauge_cells] = numbers[place.gauges]
            block.counters.reshape(-1)[place.counter_cells] = naturals[place.counters]
            block.observed.reshape(-1)[place.counter_cells] = usable[place.counters]
        for value, stamp in zip(values, _stamps(fields, values, layout.starts), strict=True):
            blocks[value.kind].sampled_ns[value.row] = stamp
        codes = np.concatenate((fields["code"], metrics["code"]))
        return blocks, [
            Failure(*layout.owner(at), int(codes[at])) for at in np.flatnonzero(codes).tolist()
        ]

    def _layout(self, values: Sequence[Values], devices: Mapping[str, int]) -> Layout:
        key: tuple[object, ...] = (
            *devices.items(),
            *((v.kind, v.row, v.columns, v.gpm) for v in values),
        )
        found = self._layouts.get(key)
        if found is None:
            if len(self._layouts) >= 4:
                self._layouts.clear()
            found = self._layouts[key] = _layout_of(key, values, devices)
        return found


def _layout_of(
    key: tuple[object, ...], values: Sequence[Values], devices: Mapping[str, int]
) -> Layout:
    columns: list[tuple[str, int, Sequence[str]]] = [(v.kind, v.row, v.columns) for v in values]
    columns += [(v.kind, v.row, v.gpm) for v in values]
    owners = [(kind, row, column) for kind, row, each in columns for column in each]
    catalogue = {(kind, f.name): f for kind in devices for f in fields_of(kind)}
    found = [catalogue[kind, column] for kind, _, column in owners]
    lengths = [len(v.columns) for v in values]
    return Layout(
        key,
        {kind: _place(kind, owners, found, number) for kind, number in devices.items()},
        columns,
        list(accumulate(len(each) for _, _, each in columns)),
        np.concatenate(([0], np.cumsum(lengths)[:-1])).astype(np.intp),
        [
            (at, codec)
            for at, f in enumerate(found)
            if f.type == "gauge" and (codec := _field_codec(f))
        ],
        np.array([at for at, f in enumerate(found) if f.name.endswith("_celsius")], np.intp),
    )


def _field_codec(row: Field) -> str:
    """Codec of a column that is read as a field value, the same for each way of asking: getters are
    decoded in the child.
    """
    return (
        row.read.rpartition(" as ")[2]
        if row.read.startswith("field ") and " as " in row.read
        else ""
    )


def _place(
    kind: str, owners: Sequence[tuple[str, int, str]], fields: Sequence[Field], number: int
) -> _Place:
    schema = schema_of(kind)
    gauges = [
        (at, schema.gauge_row[c] * number + row)
        for at, (k, row, c) in enumerate(owners)
        if k == kind and fields[at].type == "gauge"
    ]
    counters = [
        (at, schema.counter_row[c] * number + row)
        for at, (k, row, c) in enumerate(owners)
        if k == kind and fields[at].type == "counter"
    ]
    columns = [
        np.array(part, np.intp)
        for pairs in (gauges, counters)
        for part in (tuple(zip(*pairs, strict=True)) or ((), ()))
    ]
    return _Place(*columns)


def _empty(kind: str, number: int) -> Block:
    gauges, counters, observed = blank(kind, [None] * number)
    return Block(gauges, counters, observed, np.zeros(number, np.int64))


def _decode(fields: NDArray[np.void]) -> tuple[NDArray[np.float64], NDArray[np.uint64]]:
    """Entries as floats (NaN where they were not read) and as unsigned integers (of use
    where _natural says so).
    """
    types = fields["type"]
    known = (types >= 0) & (types < len(_MASKS))
    naturals = fields["value"] & _MASKS[np.where(known, types, 0)]
    numbers = naturals.astype(np.float64)
    doubles = types == _DOUBLE
    if doubles.any():
        numbers[doubles] = fields["value"][doubles].view(np.float64)
        naturals[doubles] = np.nan_to_num(np.clip(numbers[doubles], 0, 2.0**53)).astype(np.uint64)
    for code, signed in ((_LONG_LONG, np.int64), (_INT, np.int32)):
        which = types == code
        if which.any():
            numbers[which] = naturals[which].astype(signed)
    numbers[(fields["code"] != 0) | ~known] = np.nan
    return numbers, naturals


def _activity(metrics: NDArray[np.void]) -> NDArray[np.float64]:
    """GPM values, rounded as the catalogue says so that they are kept in few bytes; NaN
    where they were not read.
    """
    read = np.where(metrics["code"] == 0, metrics["value"], np.nan)
    return np.asarray(np.round(read, GPM_DECIMALS) + 0.0, np.float64)  # never -0.0


def _natural(fields: NDArray[np.void]) -> NDArray[np.bool_]:
    """Entries that are numbers a counter can have: read, and not negative."""
    types, value = fields["type"], fields["value"]
    negative = ((types == _LONG_LONG) & (value >> np.uint64(63) == 1)) | (
        (types == _INT) & (value >> np.uint64(31) & np.uint64(1) == 1)
    )
    if (types == _DOUBLE).any():
        as_double = (
            value.view(np.float64)
            if value.flags.c_contiguous
            else np.ascontiguousarray(value).view(np.float64)
        )
        negative |= (types == _DOUBLE) & ~(as_double >= 0)
    usable: NDArray[np.bool_] = (
        (fields["code"] == 0) & (types >= 0) & (types < len(_MASKS)) & ~negative
    )
    return usable


def _drop_garbage(numbers: NDArray[np.float64], celsius: NDArray[np.intp]) -> None:
    degrees = numbers[celsius]
    with np.errstate(invalid="ignore"):
        numbers[celsius] = np.where((degrees < _COLDEST) | (degrees > _HOTTEST), np.nan, degrees)


def _stamps(
    fields: NDArray[np.void], values: Sequence[Values], starts: NDArray[np.intp]
) -> NDArray[np.int64]:
    """The driver's time of each target: the latest of its entries, or the reading's where
    there is none to be believed.
    """
    read = np.array([v.time_ns for v in values], np.int64)
    stamps = np.where(fields["code"] == 0, fields["stamp_us"], 0)
    filled = np.array([bool(v.columns) for v in values])
    latest = np.zeros(len(values), np.int64)
    if filled.any():
        latest[filled] = np.maximum.reduceat(stamps, starts[filled])
    believable = np.abs(latest - read // 1000) < _STAMP_TOLERANCE_NS // 1000
    return np.where(believable, latest * 1000, read)
