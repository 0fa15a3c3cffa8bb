"""Many files of one table into one, sorted by host, device and time, in bounded memory: a merge
sort with its runs on disk.

First as many files as fit in memory are sorted together into a scratch file, device by device. Then
the scratch files are merged: each is a few *runs*, consecutive rows of one device, and only the
runs of one chunk are in memory. Runs that do not overlap in time follow one another; those that do
(a clock that was set back, a late file) are sorted together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.store.files.parquet import Writer, conform, named
from pipeline.store.files.readers import Readers
from pipeline.store.files.schema import schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

# of decoded values held at once; the process needs about twice this beside pyarrow itself
CHUNK_BYTES = 24 << 20
# least rows of a scratch file's group: 25 us per column chunk against rows decoded in vain
SCRATCH_ROWS = 1024
# Eight hours of one device at 1 Hz, where a chunk holds so many: a column of it is decoded in 0.2
# ms, while a footer entry costs 130 bytes per column and group, and 0.4 us each time the file is
# opened, whatever is asked.
GROUP_ROWS = 28_800
# rows are sorted by those of them that a table has
KEYS = ("host", "device", "time", "boot_id", "seq", "n", "row")
COLUMNS_AT_ONCE = 16  # of a chunk, while it is put together


@dataclass(frozen=True, slots=True, order=True)
class Run:
    """Consecutive rows of one device in one row group of one file, with
    their first and last time.
    """

    host: str
    device: str
    first_us: int
    last_us: int
    path: Path
    group: int
    start: int
    stop: int

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.stop - self.start


def merge(
    paths: Sequence[Path], name: str, file: Writer, scratch: Path, readers: Readers | None = None
) -> None:
    """Write all rows of these files of one table to ``file``; ``scratch`` is a folder to work in.

    ``readers`` has those of the table that are open already. ForeignError names the file that turns
    out to be damaged.
    """
    if readers is None:
        with Readers(name) as own:
            merge(paths, name, file, scratch, own)
        return
    max_rows = CHUNK_BYTES // (8 * len(file.columns))
    batches, large = _plan(paths, readers, max_rows)
    if len(batches) == 1 and not large:
        _write(sorted_rows(batches[0], name, file.columns.names, readers), file, GROUP_ROWS)
        return
    scratch.mkdir(parents=True, exist_ok=True)
    for number, batch in enumerate(batches):
        with Writer(name, scratch / f"{number}.parquet", file.columns) as sorted_file:
            rows = sorted_rows(batch, name, file.columns.names, readers)
            _write(rows, sorted_file, SCRATCH_ROWS)
    sources = [*large, *(scratch / f"{number}.parquet" for number in range(len(batches)))]
    found = sorted(run for path in sources for run in runs(path, name, readers))
    for chunk in chunks(found, max_rows):
        _write(load(chunk, name, file.columns.names, readers), file, GROUP_ROWS)


def sorted_rows(
    paths: Iterable[Path],
    name: str,
    columns: Sequence[str] | None = None,
    readers: Readers | None = None,
) -> pa.Table:
    """These columns (all by default) of all rows of these files, sorted."""
    if readers is None:
        with Readers(name) as own:
            return sorted_rows(paths, name, columns, own)
    found = sorted(run for path in paths for run in runs(path, name, readers))
    return load(found, name, columns or schema(name).names, readers)


def runs(path: Path, name: str, readers: Readers | None = None) -> Iterator[Run]:
    """Runs of one file, in its order. Errors as parquet.read."""
    if readers is None:
        with Readers(name) as own:
            yield from runs(path, name, own)
        return
    file = readers.file(path)
    with named(path):
        for group in range(file.num_row_groups):
            index = conform(
                file.read_row_group(group, columns=["host", "device", "time"]),
                name,
                ["host", "device", "time"],
            )
            yield from _runs_of(index.combine_chunks(), path, group)


def chunks(ordered: Sequence[Run], max_rows: int) -> Iterator[list[Run]]:
    """Sorted runs in lists of about ``max_rows`` rows; devices whole where they fit, and runs of
    one that overlap in time together.
    """
    whole: Counter[tuple[str, str]] = Counter()
    for run in ordered:
        whole[run.host, run.device] += run.rows
    chunk: list[Run] = []
    rows, reached = 0, 0
    for run in ordered:
        begins = not chunk or (chunk[-1].host, chunk[-1].device) != (run.host, run.device)
        needed = min(whole[run.host, run.device], max_rows) if begins else run.rows
        apart = begins or run.first_us > reached
        if apart and chunk and rows + needed > max_rows:
            yield chunk
            chunk, rows = [], 0
        reached = run.last_us if apart else max(reached, run.last_us)
        chunk.append(run)
        rows += run.rows
    if chunk:
        yield chunk


def load(
    chunk: Sequence[Run], name: str, columns: Sequence[str], readers: Readers | None = None
) -> pa.Table:
    """These columns of the rows of these runs as one sorted table.

    A few columns at a time: the rest of their groups is soon released.
    """
    if readers is None:
        with Readers(name) as own:
            return load(chunk, name, columns, own)
    if not chunk:
        return conform(schema(name).empty_table(), name, columns)
    keys = [c for c in KEYS if c in columns]
    rest = [c for c in columns if c not in keys]
    first = _columns(chunk, readers, name, keys)
    order = _order(first)
    parts = [_taken(first, order)]
    for start in range(0, len(rest), COLUMNS_AT_ONCE):
        some = _columns(chunk, readers, name, rest[start : start + COLUMNS_AT_ONCE])
        parts.append(_taken(some, order))
    return pa.table(
        {column: part[column] for part in parts for column in part.column_names}
    ).select(list(columns))


def _columns(chunk: Sequence[Run], readers: Readers, name: str, columns: Sequence[str]) -> pa.Table:
    """Some columns of the rows of these runs, one run after the other; each row group is decoded
    once.
    """
    pieces: dict[int, pa.Table] = {}
    for path in sorted({run.path for run in chunk}):
        wanted = [(place, run) for place, run in enumerate(chunk) if run.path == path]
        file = readers.file(path)
        with named(path):
            for group in sorted({run.group for _, run in wanted}):
                rows = conform(file.read_row_group(group, columns=list(columns)), name, columns)
                pieces |= {
                    place: rows.slice(run.start, run.rows)
                    for place, run in wanted
                    if run.group == group
                }
    with named(chunk[0].path):
        return (
            pa.concat_tables(pieces[place] for place in range(len(chunk)))
            .unify_dictionaries()
            .combine_chunks()
        )


def in_order(table: pa.Table) -> pa.Table:
    """The table sorted by host, device, time, boot, number and place in the observation;
    itself where it is already.
    """
    return _taken(table, _order(table))


def _order(table: pa.Table) -> NDArray[np.intp] | None:
    """Where each row of the sorted table is in this one; None where it is sorted."""
    order = np.lexsort(
        [sortable(table[column]) for column in KEYS if column in table.column_names][::-1]
    )
    return None if np.array_equal(order, np.arange(len(order))) else order


def _taken(table: pa.Table, order: NDArray[np.intp] | None) -> pa.Table:
    return table if order is None else table.take(pa.array(order))


def groups(table: pa.Table, rows: int) -> Iterator[pa.Table]:
    """A sorted table in pieces for row groups of about ``rows`` rows: several small devices
    whole, or a part of one.

    A device with a quarter of GROUP_ROWS shares its groups with no other, so that a group's
    statistics are of it alone.
    """
    start = begin = 0
    for stop in [*_ends_of_devices(table), len(table)]:
        alone = stop - begin >= GROUP_ROWS // 4
        if start < begin and (alone or begin - start >= rows):
            yield table.slice(start, begin - start)
            start = begin
        while alone and stop - start > 3 * GROUP_ROWS // 2:
            yield table.slice(start, GROUP_ROWS)
            start += GROUP_ROWS
        if alone:
            yield table.slice(start, stop - start)
            start = stop
        begin = stop
    if start < len(table):
        yield table.slice(start)


def _plan(
    paths: Sequence[Path], readers: Readers, max_rows: int
) -> tuple[list[list[Path]], list[Path]]:
    """Files in batches that fit in memory together, and those that do not fit alone (compacted
    ones, which are sorted in small groups).
    """
    batches: list[list[Path]] = []
    large, rows = [], max_rows
    for path in paths:
        n = readers.file(path).metadata.num_rows
        if n > max_rows:
            large.append(path)
            continue
        if rows + n > max_rows:
            batches.append([])
            rows = 0
        batches[-1].append(path)
        rows += n
    return batches, large


def _write(table: pa.Table, file: Writer, rows: int) -> None:
    for group in groups(table, rows):
        file.write(group)


def _ends_of_devices(table: pa.Table) -> list[int]:
    """Where one device's rows end and the next one's begin."""
    if not len(table):
        return []
    codes = [sortable(table[column]) for column in ("host", "device")]
    edges: list[int] = (
        np.flatnonzero((np.diff(codes[0]) != 0) | (np.diff(codes[1]) != 0)) + 1
    ).tolist()
    return edges


def _runs_of(index: pa.Table, path: Path, group: int) -> Iterator[Run]:
    if not len(index):
        return
    time = index["time"].cast(pa.int64()).to_numpy()
    edges = np.array(_ends_of_devices(index), np.int64)
    # none within a device's run in a file of ours
    backwards = np.flatnonzero(np.diff(time) < 0) + 1
    starts = np.union1d(np.array([0]), np.union1d(edges, backwards))
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(index)], strict=True):
        host, device = (index[column][start].as_py() for column in ("host", "device"))
        yield Run(host, device, int(time[start]), int(time[stop - 1]), path, group, start, stop)


def sortable(column: pa.ChunkedArray) -> Any:
    """A column as integers in the same order."""
    if not pa.types.is_dictionary(column.type):
        return column.cast(pa.int64()).to_numpy()
    array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    words = np.array(array.dictionary.to_pylist(), object)
    rank = np.empty(len(words), np.int64)
    rank[np.argsort(words)] = np.arange(len(words))
    return (
        rank[pc.fill_null(array.indices, 0).to_numpy(zero_copy_only=False)]
        if len(words)
        else np.zeros(len(array), np.int64)
    )
