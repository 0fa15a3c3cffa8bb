"""Row groups of a file in pieces, from one time to another.

In a day's file most columns of a group never change: a GPU's limits, its error counters. Footers
say so, and such a column is not decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.catalog import KINDS
from pipeline.small_arrays import all_true
from pipeline.store.files.parquet import conform, named
from pipeline.store.files.schema import OF_FRAMES, schema

BATCH_ROWS = 4096  # of a group that is read bit by bit: about an hour at 1 Hz
# A group of one device with more rows is read bit by bit, others at once: two hours at 1 Hz.
STREAM_ROWS = 7200
# Rows may be a little older or newer than the reads that they belong to.
MARGIN_US = 60_000_000
INDEX = ("time", "host", "device", "boot_id", "mono_ns", "seq", *(name for name, *_ in OF_FRAMES))


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of a file: columns that vary, and ``fixed`` the value of those that do not.

    Columns of a table of devices are in the types of the file, those of others in the schema's.
    """

    path: Path
    rows: pa.Table
    fixed: Mapping[str, float]


class Group:
    """One row group. ``take`` goes forward only.

    A group of one device, which a compacted file has many of, is decoded as far as needed: eight
    hours of 1,000 devices do not fit in memory.
    """

    def __init__(self, path: Path, file: pq.ParquetFile, number: int, table: str) -> None:
        self._path, self._file, self._number, self._table = path, file, number, table
        meta = file.metadata.row_group(number)
        at = {meta.column(i).path_in_schema: i for i in range(meta.num_columns)}
        self._fixed: dict[str, float] = {}
        self._columns: list[str] | None = None
        if table in KINDS:
            known = set(schema(table).names)
            self._fixed = {
                name: value
                for name, i in at.items()
                if name in known
                and name not in INDEX
                and (value := _fixed(meta.column(i), file.schema.column(i))) is not None
            }
            self._columns = [name for name in at if name in known and name not in self._fixed]
        self._span = bounds(meta.column(at["time"]))
        self._boots = bounds(meta.column(at["boot_id"])) if "boot_id" in at else None
        single = all(
            (ends := bounds(meta.column(at[name]))) is not None and ends[0] == ends[1]
            for name in ("host", "device")
        )
        self._streams = single and meta.num_rows > STREAM_ROWS and bool(meta.sorting_columns)
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._rest: pa.Table | None = None

    def may_hold(self, boots: Iterable[bytes]) -> bool:
        """Whether it may have rows of any of these boots."""
        ends = self._boots
        return ends is None or any(ends[0] <= boot <= ends[1] for boot in boots)

    def take(self, begin_us: int, end_us: int) -> Piece | None:
        """Rows of that time, with a margin; None where there are none.

        ForeignError where the group is damaged.
        """
        begin_us, end_us = begin_us - MARGIN_US, end_us + MARGIN_US
        if self._span is not None and (self._span[1] < begin_us or self._span[0] >= end_us):
            return None
        with named(self._path):
            rows = self._read(end_us)
            time = rows["time"].cast(pa.int64()).to_numpy()
            chosen = (time >= begin_us) & (time < end_us)
            kept = None if self._done(end_us) else rows
            if kept is not None and self._streams:
                kept = rows.slice(int(np.searchsorted(time, end_us - 2 * MARGIN_US)))
            self._rest = kept
            rows = rows if all_true(chosen) else _chosen(rows, chosen)
        return Piece(self._path, rows, self._fixed) if len(rows) else None

    def _done(self, end_us: int) -> bool:
        """Whether later spans have no rows here."""
        return self._span is not None and self._span[1] < end_us - 2 * MARGIN_US

    def _read(self, end_us: int) -> pa.Table:
        if not self._streams:
            if self._rest is None:
                self._rest = self._typed(
                    self._file.read_row_group(
                        self._number, columns=self._columns, use_threads=False
                    )
                )
            return self._rest
        if self._batches is None:
            self._batches = self._file.iter_batches(
                BATCH_ROWS, row_groups=[self._number], columns=self._columns, use_threads=False
            )
        parts = [] if self._rest is None else [self._rest]
        while not parts or _last_us(parts[-1]) < end_us:
            batch = next(self._batches, None)
            if batch is None:
                break
            parts.append(self._typed(pa.table(batch)))
        return pa.concat_tables(parts).unify_dictionaries()

    def _typed(self, rows: pa.Table) -> pa.Table:
        return rows if self._table in KINDS else conform(rows, self._table)


def _chosen(rows: pa.Table, chosen: Any) -> pa.Table:
    """Rows where a mask holds: a slice where they lie together."""
    at = np.flatnonzero(chosen)
    if len(at) and at[-1] - at[0] + 1 == len(at):
        return rows.slice(int(at[0]), len(at))
    return rows.filter(pa.array(chosen))


def _last_us(rows: pa.Table) -> int:
    return int(rows["time"][-1].value) if len(rows) else -(1 << 62)


def bounds(column: pq.ColumnChunkMetaData) -> tuple[Any, Any] | None:
    """Least and greatest value of a column chunk as stored.

    None where the footer does not say, or some are null.
    """
    found = column.statistics
    if found is None or not found.has_min_max or not found.has_null_count or found.null_count:
        return None
    return found.min_raw, found.max_raw


def _fixed(column: pq.ColumnChunkMetaData, kind: pq.ColumnSchema) -> float | None:
    """The one value of a column chunk, as a table of devices has it; None where there may be more.

    A footer's zero may be either zero of floating point, so that is looked up.
    """
    ends = bounds(column)
    if ends is None or ends[0] != ends[1]:
        return None
    value = ends[0]
    if column.physical_type in {"FLOAT", "DOUBLE"}:
        return float(value) if value and isfinite(value) else None
    if column.physical_type not in {"INT32", "INT64"}:
        return None
    if kind.logical_type.type == "DECIMAL":
        return float(value / 10.0**kind.scale)
    if kind.converted_type == "UINT_64":
        return int(value) % 2**64
    return int(value)
