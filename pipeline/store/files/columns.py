"""The columns of one file: those without a value are left out of it, and fractions that have so
many decimals at their source are decimals.

That is a file's own affair: ``conform`` (parquet.py) gives every reader the whole table
in the catalogue's types.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.catalog import KINDS
from pipeline.store.files.schema import DECIMALS, FIELD_ID, FIRST_FIELD, ROLLED, ROLLUPS, schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

DIGITS = 18  # of a decimal: the most that Parquet keeps in 64 bits
EXACT = 2**53  # integers below this are exact as float64


def of_rows(name: str, rows: pa.Table) -> pa.Schema:
    """Columns of a file for these rows of a table."""
    kept = [
        column
        for column in schema(name)
        if not _may_go(name, column) or rows[column.name].null_count < len(rows)
    ]
    return _schema(name, [_decimal_field(c) if _fits(c, rows[c.name]) else c for c in kept])


def of_sources(name: str, sources: Iterable[pa.Schema]) -> pa.Schema:
    """Columns of a file that takes in all rows of files with these columns."""
    found = list(sources)
    names = {one for have in found for one in have.names}
    kept = [column for column in schema(name) if column.name in names or not _may_go(name, column)]
    return _schema(name, [_decimal_field(c) if _decimal_in_all(c, found) else c for c in kept])


def of_rollup(name: str, day: pa.Schema) -> pa.Schema:
    """Columns of a roll-up's file made of a day's file with these columns: what
    becomes of each of its fields.
    """
    fields = {int(c.metadata[FIELD_ID]): c for c in map(schema(ROLLUPS[name][0]).field, day.names)}
    kept = []
    for column in schema(name):
        number = int(column.metadata[FIELD_ID])
        field = fields.get(number % ROLLED)
        if number < FIRST_FIELD or field is not None:
            decimal = (
                _decimals(column)
                and field is not None
                and pa.types.is_decimal(day.field(field.name).type)
            )
            kept.append(_decimal_field(column) if decimal else column)
    return _schema(name, kept)


def holds(columns: pa.Schema, others: pa.Schema) -> bool:
    """Whether a file with ``columns`` can take in all rows of one with ``others`` (both
    of this version's making).
    """
    types = dict(zip(columns.names, columns.types, strict=True))
    return all(types.get(c.name) in (c.type, pa.float64()) for c in others)


def stored(rows: pa.Table, columns: pa.Schema) -> pa.Table:
    """Rows of a table as a file with these columns takes them.

    ValueError where that would lose a value.
    """
    lost = [
        name
        for name in set(rows.column_names).difference(columns.names)
        if rows[name].null_count < len(rows)
    ]
    if lost:
        raise ValueError(
            f"columns with values have no place in the file: {', '.join(sorted(lost))}"
        )
    arrays = [
        _to_decimal(rows[c.name], c.type) if pa.types.is_decimal(c.type) else rows[c.name]
        for c in columns
    ]
    return pa.table(arrays, schema=columns)


def from_decimal(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A decimal column as float64.

    By division: a product with the reciprocal, as arrow's own cast makes it, is
    off by a bit now and then.
    """
    if not pa.types.is_decimal128(column.type) or column.type.precision > DIGITS:
        return column.cast(pa.float64())
    return pa.chunked_array(
        [_floats(chunk, column.type.scale) for chunk in column.chunks], pa.float64()
    )


def _may_go(name: str, column: pa.Field) -> bool:
    """Only measurements do: other tables have few columns, and users write their names."""
    return (name in KINDS or name in ROLLUPS) and int(column.metadata[FIELD_ID]) >= FIRST_FIELD


def _schema(name: str, columns: list[pa.Field]) -> pa.Schema:
    return pa.schema(columns, metadata=schema(name).metadata)


def _decimals(column: pa.Field) -> int:
    return int(column.metadata.get(DECIMALS, b"0"))


def _decimal_field(column: pa.Field) -> pa.Field:
    return column.with_type(pa.decimal128(DIGITS, _decimals(column)))


def _decimal_in_all(column: pa.Field, sources: list[pa.Schema]) -> bool:
    wanted = pa.decimal128(DIGITS, _decimals(column)) if _decimals(column) else None
    places = (
        [(have, have.get_field_index(column.name)) for have in sources]
        if wanted is not None
        else []
    )
    return wanted is not None and all(
        have.field(place).type == wanted for have, place in places if place >= 0
    )


def _fits(column: pa.Field, values: pa.ChunkedArray) -> bool:
    """Whether all values come back bit for bit from decimals with the column's places."""
    if not _decimals(column):
        return False
    floats = values.drop_null().to_numpy()
    with np.errstate(over="ignore"):
        scaled = np.rint(floats * 10.0 ** _decimals(column))
    if not np.all(np.abs(scaled) < EXACT):
        return False
    back = scaled.astype(np.int64) / 10.0 ** _decimals(column)
    return bool(np.array_equal(back.view(np.int64), np.ascontiguousarray(floats).view(np.int64)))


def _to_decimal(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    values = pc.fill_null(column, 0.0).to_numpy()
    # little endian: the low half, then the sign
    words: NDArray[np.int64] = np.empty((len(values), 2), np.int64)
    words[:, 0] = np.rint(values * 10.0**kind.scale)
    words[:, 1] = words[:, 0] >> 63
    valid = (
        np.packbits(column.is_valid().to_numpy(), bitorder="little") if column.null_count else None
    )
    return pa.Array.from_buffers(
        kind, len(values), [None if valid is None else pa.py_buffer(valid), pa.py_buffer(words)]
    )


def _floats(chunk: Any, scale: int) -> pa.Array:
    if not len(chunk):
        return pa.array([], pa.float64())
    words = np.frombuffer(chunk.buffers()[1], np.int64).reshape(-1, 2)
    values = words[chunk.offset : chunk.offset + len(chunk), 0] / 10.0**scale
    return pa.array(
        values, mask=chunk.is_null().to_numpy(zero_copy_only=False) if chunk.null_count else None
    )
