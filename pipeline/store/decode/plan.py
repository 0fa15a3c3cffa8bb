"""Which hours must be read together: a clock that was set back wrote later observations into hours
that were over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.store.decode.groups import bounds
from pipeline.store.files.layout import DAY_US, HOUR_US, hour_of, may_hold, owner_of
from pipeline.store.files.live import live_files
from pipeline.store.files.parquet import ForeignError, named, opened

# How far a clock is set back at most; also hours that are read together, at most.
MAX_HOURS = 24

# File's cluster and node with boot id: first and last number of its observations in an hour.
Ranges = dict[tuple[str, str], tuple[int, int]]


class Plan:
    """Hours of the store below ``root``, rising, in groups whose numbers follow one another."""

    def __init__(self, root: Path, hours: Sequence[int], hosts: Collection[str] = ()) -> None:
        self._root, self._hours, self._hosts = root, hours, hosts
        self._ranges: dict[int, Ranges] = {}
        self._seen: set[Path] = set()

    def groups(self) -> Iterator[list[int]]:
        """Mostly one hour each."""
        begin = 0
        while begin < len(self._hours):
            end = self._end(begin)
            yield list(self._hours[begin:end])
            for hour in self._hours[begin:end]:
                self._ranges.pop(hour, None)
            begin = end

    def _end(self, begin: int) -> int:
        """Where the group ends that begins here."""
        until = self._hours[begin] + MAX_HOURS * HOUR_US
        ahead = [i for i in range(begin, len(self._hours)) if self._hours[i] < until]
        ranges = [self._of(self._hours[i]) for i in ahead]
        reached, last, at = dict[tuple[str, str], int](), 0, 0
        while at <= last:
            for key, (_, high) in ranges[at].items():
                reached[key] = max(high, reached.get(key, -1))
            for later in range(at + 1, len(ahead)):
                if any(low < reached.get(key, -1) for key, (low, _) in ranges[later].items()):
                    last = max(last, later)
            at += 1
        return ahead[last] + 1

    def _of(self, hour: int) -> Ranges:
        if hour not in self._ranges:
            self._ranges.setdefault(hour, {})
            for path in live_files(self._root, "reads", [hour]):
                if path not in self._seen and may_hold(path.name, self._hosts):
                    self._seen.add(path)
                    self._add(path, hour)
        return self._ranges[hour]

    def _add(self, path: Path, hour: int) -> None:
        """Take in a file; one that cannot be read is named when its rows are."""
        scope = owner_of(path.name)
        try:
            with opened(path, "reads") as file, named(path):
                for own, boot, low, high in _numbers(file, path, hour):
                    found = self._ranges.setdefault(own, {})
                    before = found.get((scope, boot), (low, high))
                    found[scope, boot] = min(low, before[0]), max(high, before[1])
        except (ForeignError, OSError):
            return


def _numbers(file: pq.ParquetFile, path: Path, hour: int) -> Iterable[tuple[int, str, int, int]]:
    """Hour, boot, first and last number of what a file holds."""
    day = hour_of(path.parent) is None
    for group in range(file.num_row_groups):
        meta = file.metadata.row_group(group)
        columns = {meta.column(i).path_in_schema: meta.column(i) for i in range(meta.num_columns)}
        boot, seq = bounds(columns["boot_id"]), bounds(columns["seq"])
        if not day and boot is not None and seq is not None and boot[0] == boot[1]:
            yield hour, boot[0].decode(), int(seq[0]), int(seq[1])
            continue
        rows = file.read_row_group(group, columns=["time", "boot_id", "seq"], use_threads=False)
        yield from _scanned(rows, None if day else hour)


def _scanned(rows: pa.Table, hour: int | None) -> Iterator[tuple[int, str, int, int]]:
    """As ``_numbers``, of rows; ``hour`` None is that of each row."""
    boots = rows["boot_id"].combine_chunks()
    coded = boots if pa.types.is_dictionary(boots.type) else boots.dictionary_encode()
    words = coded.dictionary.to_pylist()
    code = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    seq = rows["seq"].to_numpy()
    hours = rows["time"].cast(pa.int64()).to_numpy() // HOUR_US
    key = code * (DAY_US + 1) + (hours if hour is None else 0)
    order = np.argsort(key, kind="stable")
    edges = np.flatnonzero(np.diff(key[order], prepend=-1))
    low, high = (part.reduceat(seq[order], edges) for part in (np.minimum, np.maximum))
    for place, first, last in zip(order[edges].tolist(), low.tolist(), high.tolist(), strict=True):
        own = int(hours[place]) * HOUR_US if hour is None else hour
        yield own, words[code[place]], first, last
