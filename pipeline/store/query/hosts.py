"""The hosts whose agents stored anything, mostly by the footers of their files alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from pipeline.store.decode.groups import bounds
from pipeline.store.files.layout import hour_of
from pipeline.store.files.live import TRIES, compacted, live_files
from pipeline.store.files.parquet import ForeignError, named, opened


def hosts_below(root: Path, hours: Sequence[int]) -> set[str]:
    """Of the store below ``root``, in these hours (unix time of their begins, microseconds); of a
    day's file all of them.

    A file that cannot be read is left out: it is named where its rows are read. FileNotFoundError
    where files keep being replaced.
    """
    for _ in range(TRIES - 1):
        try:
            return _hosts(live_files(root, "reads", hours))
        except FileNotFoundError:  # replaced by a compacted file
            continue
    return _hosts(live_files(root, "reads", hours))


def reads_below(root: Path, hour: int) -> tuple[set[str], float]:
    """As ``hosts_below``, of an hour; and how many reads it has, in the mean of its day where that
    is in one file. None of both where files keep being replaced.
    """
    reads = 0.0
    try:
        paths = live_files(root, "reads", [hour])
        for path in paths:
            is_day = hour_of(path.parent) is None
            hours = max(len(compacted(path).hours), 1) if is_day else 1
            with opened(path, "reads") as file:
                reads += file.metadata.num_rows / hours
        return _hosts(paths), reads
    except (FileNotFoundError, ForeignError, PermissionError):
        return set(), 0.0


def _hosts(paths: Sequence[Path]) -> set[str]:
    found: set[str] = set()
    for path in paths:
        try:
            with opened(path, "reads") as file, named(path):
                for number in range(file.num_row_groups):
                    found |= _of_group(file, number)
        except (ForeignError, PermissionError):
            continue
    return found


def _of_group(file: pq.ParquetFile, number: int) -> set[str]:
    meta = file.metadata.row_group(number)
    (column,) = (
        meta.column(i) for i in range(meta.num_columns) if meta.column(i).path_in_schema == "host"
    )
    ends = bounds(column)
    if ends is not None and ends[0] == ends[1]:
        return {ends[0].decode()}
    rows = file.read_row_group(number, columns=["host"], use_threads=False)
    return set(rows["host"].unique().to_pylist())
