"""Parquet files with the encodings of the catalogue: written whole or group by group, opened with a check of what they are, read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.store.schema import BEGIN, FORMAT, ROLLUPS, encodings, schema

ROW_GROUP = 1 << 17  # rows: about an hour of 32 devices at 1 Hz; smaller groups cost 25 us per column chunk


class ForeignError(ValueError):
    """A file that is damaged, not one of ours, or of a newer layout than this version reads: ``path`` and why."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path


def write(table: pa.Table, name: str, path: Path, *, compression: str = "zstd", level: int = 1) -> None:
    """Write one table, rows as they come: sorted by device and time."""
    with writer(name, path, compression=compression, level=level) as file:
        file.write_table(table, row_group_size=ROW_GROUP)


def writer(
    name: str, path: Path, about: Mapping[str, str] | None = None, *, compression: str = "zstd", level: int = 1
) -> pq.ParquetWriter:
    """A file of a table that takes row groups one after the other; ``about`` is kept in its footer beside the schema's own facts.

    Pages carry checksums: a flipped bit is seen when they are read.
    """
    wanted = schema(name)
    facts = {**wanted.metadata, **(about or {})}
    dictionary, encoding = encodings(name)
    file = pq.ParquetWriter(
        path,
        wanted.with_metadata(facts),
        version="2.6",
        compression=compression,
        compression_level=level,
        use_dictionary=dictionary,
        column_encoding=encoding,
        write_page_index=True,
        write_page_checksum=True,
        sorting_columns=[pq.SortingColumn(wanted.get_field_index(c)) for c in ("host", "device", "time")],
        # Types and ids stand in the file anyway. The words for people cost 600 bytes a column: more than a roll-up's values.
        store_schema=name not in ROLLUPS,
    )
    if name in ROLLUPS:  # elsewhere they come with the schema
        file.add_key_value_metadata(facts)
    return file


def read(path: Path, name: str, where: Any = None) -> pa.Table:
    """A table with exactly this version's columns: those the file lacks are null, those of another version are left out.

    ``where`` is an expression of pyarrow on columns; groups that cannot match are not decoded. FileNotFoundError where the file has
    gone (replaced by a compacted one), ForeignError where it is damaged, of another table, or of a newer layout.
    """
    with opened(path, name), named(path):
        return conform(pq.read_table(path, partitioning=None, filters=where, page_checksum_verification=True), name)


@contextmanager
def opened(path: Path, name: str, source: Any = None, footer: pq.FileMetaData | None = None) -> Iterator[pq.ParquetFile]:
    """The file, once its footer says that it holds this table in a layout that this version reads; errors as ``read``.

    ``source`` is its bytes as pyarrow takes them, where they do not lie at ``path`` or are open already; ``footer`` is known already.
    """
    where = path if source is None else source
    with (
        named(path),
        pq.ParquetFile(where, metadata=footer, page_checksum_verification=True, pre_buffer=source is not None) as file,
    ):
        about = file.metadata.metadata or {}  # not from schema_arrow, which is made anew each time it is asked for
        if about.get(b"tocsin.table") != name.encode():
            raise ForeignError(path, f"holds table {about.get(b'tocsin.table')!r}, wanted {name!r}")
        if int(about.get(b"tocsin.format", b"0")) > FORMAT:
            raise ForeignError(
                path, f"written by a newer version (layout {int(about[b'tocsin.format'])}, this one reads {FORMAT})"
            )
        have = file.metadata.schema.names
        missing = [column for column, *_ in BEGIN if column not in have]
        if missing:
            raise ForeignError(path, f"has no column {missing[0]!r}, which every table begins with")
        yield file


@contextmanager
def named(path: Path) -> Iterator[None]:
    """What pyarrow raises over damaged bytes becomes a ForeignError that names the file; the system's own errors stay."""
    try:
        yield
    except ForeignError:
        raise
    except OSError as error:
        if error.errno is not None:  # the disk's or the kernel's trouble, not the file's
            raise
        raise ForeignError(path, f"not a readable Parquet file: {error}") from error
    except (pa.ArrowException, ValueError, LookupError, OverflowError, MemoryError) as error:
        raise ForeignError(path, f"not a readable Parquet file: {error}") from error


def conform(table: pa.Table, name: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Columns by name (all by default) in this version's order and types; missing ones are null."""
    wanted = schema(name) if columns is None else pa.schema([schema(name).field(c) for c in columns])
    have = dict(zip(table.column_names, table.columns, strict=True))
    arrays = [_as(have[c.name], c.type) if c.name in have else pa.nulls(len(table), c.type) for c in wanted]
    return pa.table(arrays, schema=wanted)


def _as(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return column if column.type == kind else column.cast(kind)  # a cast copies, even to the same type
