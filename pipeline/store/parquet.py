"""One Arrow table to one Parquet file, with the encodings of the catalogue, and back."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.store.schema import FORMAT, encodings, schema

ROW_GROUP = 1 << 17  # rows: about an hour of 32 devices at 1 Hz; smaller groups cost 25 us per column chunk


class ForeignError(ValueError):
    """A file that is not one of ours, or of a newer layout than this version reads."""


def write(table: pa.Table, name: str, path: Path, *, compression: str = "zstd", level: int = 1) -> None:
    """Write one table, rows as they come: sorted by device and time."""
    dictionary, encoding = encodings(name)
    wanted = [pq.SortingColumn(table.schema.get_field_index(c)) for c in ("host", "device", "time")]
    with pq.ParquetWriter(
        path,
        table.schema,
        version="2.6",
        compression=compression,
        compression_level=level,
        use_dictionary=dictionary,
        column_encoding=encoding,
        write_page_index=True,
        sorting_columns=wanted,
        store_schema=True,
    ) as writer:
        writer.write_table(table, row_group_size=ROW_GROUP)


def read(path: Path, name: str) -> pa.Table:
    """A table with exactly this version's columns: those the file lacks are null, those of another version are left out.

    ForeignError where the file is damaged, of another table, or of a newer layout.
    """
    try:
        table = pq.read_table(path, partitioning=None)
    except (pa.ArrowInvalid, OSError) as error:
        raise ForeignError(f"{path}: not a readable Parquet file: {error}") from error
    about = table.schema.metadata or {}
    if about.get(b"tocsin.table") != name.encode():
        raise ForeignError(f"{path}: holds table {about.get(b'tocsin.table')!r}, wanted {name!r}")
    if int(about.get(b"tocsin.format", b"0")) > FORMAT:
        raise ForeignError(f"{path}: written by a newer version (layout {int(about[b'tocsin.format'])}, this one reads {FORMAT})")
    return conform(table, name)


def conform(table: pa.Table, name: str) -> pa.Table:
    """Columns by name in this version's order and types; missing ones are null."""
    wanted = schema(name)
    columns = [table[c.name].cast(c.type) if c.name in table.column_names else pa.nulls(len(table), c.type) for c in wanted]
    return pa.table(columns, schema=wanted)
