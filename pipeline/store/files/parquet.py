"""Parquet files with the encodings of the catalogue: written whole or group by group, opened with a
check of what they are, read.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.store.files import footer as footers
from pipeline.store.files.columns import from_decimal, of_rows, stored
from pipeline.store.files.schema import BEGIN, FORMAT, ROLLUPS, encodings, schema

# rows: about an hour of 32 devices at 1 Hz; smaller groups cost 25 us per column chunk
ROW_GROUP = 1 << 17


class ForeignError(ValueError):
    """A file that is damaged, not one of ours, or of a newer layout than this version
    reads: ``path`` and why.
    """

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{path}: {' '.join(why.split())}"
        )  # one line: pyarrow says some things in several
        self.path = path


class NewerFileError(ForeignError):
    """A file of a newer layout: it is left alone."""


class DiskError(ForeignError, OSError):
    """A file whose bytes the disk or its server cannot give: as a damaged one for those who read
    many files, the system's error for the rest.
    """


# a sector, a handle of NFS, structures on the disk; other errors are not one file's
_OF_ONE_FILE = (errno.EIO, errno.ESTALE, errno.EUCLEAN, errno.EBADMSG)


def write(rows: pa.Table, name: str, path: Path) -> None:
    """Write one table, rows as they come: sorted by device and time.

    Columns without a value are not in the file.
    """
    with Writer(name, path, of_rows(name, rows)) as file:
        file.write(rows)


class Writer:
    """A file of a table that takes row groups one after the other; ``about`` is kept in its footer
    beside the schema's own facts.

    ``columns`` are those of the file (see columns.py), all of the table by default. Pages carry
    checksums: a flipped bit is seen when they are read.
    """

    def __init__(
        self,
        name: str,
        path: Path,
        columns: pa.Schema | None = None,
        about: Mapping[str, str] | None = None,
        *,
        level: int = 1,
    ) -> None:
        self.columns = schema(name) if columns is None else columns
        facts = {**schema(name).metadata, **(about or {})}
        dictionary, encoding = encodings(self.columns)
        self._file = pq.ParquetWriter(
            path,
            self.columns.with_metadata(facts),
            version="2.6",
            compression="zstd",
            compression_level=level,
            use_dictionary=dictionary,
            column_encoding=encoding,
            store_decimal_as_integer=True,
            write_page_index=True,
            write_page_checksum=True,
            sorting_columns=[
                pq.SortingColumn(self.columns.get_field_index(c))
                for c in ("host", "device", "time")
            ],
            # Types and ids are in the file anyway. The descriptions cost 600 bytes a column:
            # more than a roll-up's values.
            store_schema=name not in ROLLUPS,
        )
        if name in ROLLUPS:  # elsewhere they come with the schema
            self._file.add_key_value_metadata(facts)
        self._path, self._closed = path, False

    def write(self, rows: pa.Table) -> None:
        """Add these rows: a row group, or several of ROW_GROUP rows.

        ValueError where a column with values is not one of the file's.
        """
        self._file.write_table(stored(rows, self.columns), row_group_size=ROW_GROUP)

    def close(self) -> None:
        """Write the footer, with its checksum. Safe twice."""
        if self._closed:
            return
        self._closed = True
        self._file.add_key_value_metadata({footers.KEY: footers.BLANK})
        self._file.close()
        footers.stamp(self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:  # what was raised is the error, not what a full disk makes of the footer
            self._closed = True
            with suppress(OSError, pa.ArrowException):
                self._file.close()


def read(path: Path, name: str, where: Any = None) -> pa.Table:
    """A table with exactly this version's columns: those the file lacks are null, those of
    another version are left out.

    ``where`` is an expression of pyarrow on columns; groups that cannot match are not decoded.
    FileNotFoundError where the file has gone (replaced by a compacted one), ForeignError where it
    is damaged, of another table, or of a newer layout.
    """
    with opened(path, name), named(path):
        return conform(
            pq.read_table(path, partitioning=None, filters=where, page_checksum_verification=True),
            name,
        )


@contextmanager
def opened(
    path: Path, name: str, source: Any = None, footer: pq.FileMetaData | None = None
) -> Iterator[pq.ParquetFile]:
    """The file, once its footer says that it holds this table in a layout that this version
    reads; errors as ``read``.

    ``source`` is its bytes as pyarrow takes them, where they do not lie at ``path`` or are open
    already; ``footer`` is known already.
    """
    where = path if source is None else source
    if footer is None:
        check(path)
    with (
        named(path),
        pq.ParquetFile(
            where, metadata=footer, page_checksum_verification=True, pre_buffer=source is not None
        ) as file,
    ):
        # not from schema_arrow, which is made again each time it is asked for
        about = file.metadata.metadata or {}
        if about.get(b"tocsin.table") != name.encode():
            raise ForeignError(path, f"holds table {about.get(b'tocsin.table')!r}, wanted {name!r}")
        if int(about.get(b"tocsin.format", b"0")) > FORMAT:
            raise NewerFileError(
                path,
                (
                    f"written by a newer version (layout {int(about[b'tocsin.format'])}, this "
                    f"one reads {FORMAT})"
                ),
            )
        have = file.metadata.schema.names
        missing = [column for column, *_ in BEGIN if column not in have]
        if missing:
            raise ForeignError(path, f"has no column {missing[0]!r}, which every table begins with")
        yield file


def check(path: Path) -> None:
    """ForeignError where a local file's footer is not as it was written."""
    # an object of a store elsewhere, or gone: what opens it says so
    with suppress(FileNotFoundError), named(path):
        if not footers.is_whole(path):
            raise ForeignError(path, "its footer is damaged: the checksum is wrong")


@contextmanager
def named(path: Path) -> Iterator[None]:
    """What pyarrow raises over damaged bytes becomes a ForeignError that names the file, and
    bytes that the disk cannot give a DiskError; the system's other errors stay.
    """
    try:
        yield
    except ForeignError:
        raise
    except OSError as error:
        if error.errno in _OF_ONE_FILE:
            raise DiskError(path, f"cannot be read: {error}") from error
        if error.errno is not None:  # the kernel's trouble, not the file's
            raise
        raise ForeignError(path, f"not a readable Parquet file: {error}") from error
    except (pa.ArrowException, ValueError, LookupError, OverflowError, MemoryError) as error:
        raise ForeignError(path, f"not a readable Parquet file: {error}") from error


def is_newer(path: Path) -> bool:
    """Whether a file says that it is of a layout that this version does not know."""
    try:
        with named(path):
            about = pq.read_metadata(path).metadata or {}
            return int(about.get(b"tocsin.format", b"0")) > FORMAT
    except (ForeignError, OSError):
        return False


def columns_in(path: Path, name: str) -> pa.Schema:
    """Columns of a file, as it has them. Errors as ``read``."""
    with opened(path, name) as file:
        columns: pa.Schema = file.schema_arrow
        return columns


def conform(table: pa.Table, name: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Columns by name (all by default) in this version's order and types; missing ones are null."""
    wanted = (
        schema(name) if columns is None else pa.schema([schema(name).field(c) for c in columns])
    )
    have = dict(zip(table.column_names, table.columns, strict=True))
    nulls = {
        kind: pa.nulls(len(table), kind) for kind in {c.type for c in wanted if c.name not in have}
    }  # one for all columns of a type
    arrays = [_as(have[c.name], c.type) if c.name in have else nulls[c.type] for c in wanted]
    return pa.table(arrays, schema=wanted)


def _as(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if column.type == kind:  # a cast copies, even to the same type
        return column
    return (
        from_decimal(column)
        if pa.types.is_decimal(column.type) and kind == pa.float64()
        else column.cast(kind)
    )
