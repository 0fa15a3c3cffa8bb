"""Rows of one table as a polars lazy frame: of each file only the row groups and columns that a
question needs, every row once.

Files are read by pyarrow, not by polars: polars takes a flipped bit in a page for a value, pyarrow
checks each page's sum. A damaged file is named and its damaged row groups are left out; the rest
still answers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import TypeVar

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from polars.io.plugins import register_io_source

from pipeline.catalog import KINDS
from pipeline.store.files.layout import DAY_US, EVENT_LATE_US, HOUR_US
from pipeline.store.files.parquet import ForeignError, conform, named
from pipeline.store.files.schema import schema
from pipeline.store.query.file_store import FileStore, Stored
from pipeline.store.query.pruning import Possible

CHUNK_ROWS = 1 << 20  # rows of one file that are decoded at once
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KEY = ("boot_id", "seq")  # of the observation that a row came with
_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(slots=True)
class Notices:
    """Notices that come with an answer: files (or parts of them) that were
    left out, and how far it is.
    """

    progress: Callable[[float], object] = lambda _share: None
    left_out: list[str] = field(default_factory=list)

    def leave_out(self, why: str) -> None:
        """Name something that could not be read, once."""
        if why not in self.left_out:
            self.left_out.append(why)


@cache
def columns_of(table: str) -> pl.Schema:
    """Columns and types of a table in polars; names are text.

    KeyError for a table that does not exist.
    """
    empty = pl.DataFrame(schema(table).empty_table())
    return pl.Schema(
        {
            name: pl.String() if kind == pl.Categorical else kind
            for name, kind in empty.schema.items()
        }
    )


@cache
def _empty(table: str) -> pa.Table:
    return schema(table).empty_table()


def scan(place: FileStore, table: str, notices: Notices | None = None) -> pl.LazyFrame:
    """All rows of a table.

    What is there is looked up when the frame is collected, each time again.
    """

    def rows(
        columns: list[str] | None, predicate: pl.Expr | None, most: int | None, _size: int | None
    ) -> Iterator[pl.DataFrame]:
        if most is None:
            yield from Scan(place, table, notices or Notices(), columns, predicate).frames()
            return
        # So many rows, and of these the ones that meet the condition: polars passes both only where
        # a limit lies below a condition.
        wanted = list(columns_of(table)) if columns is None else columns
        asked = predicate.meta.root_names() if predicate is not None else []
        every = list(dict.fromkeys([*wanted, *asked]))
        for frame in _first(most, Scan(place, table, notices or Notices(), every, None).frames()):
            yield (frame if predicate is None else frame.filter(predicate)).select(wanted)

    return register_io_source(rows, schema=columns_of(table), is_pure=True)


def _first(most: int, frames: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Frames up to so many rows."""
    for frame in frames:
        yield frame.head(most)
        if (most := most - len(frame)) <= 0:
            return


class Scan:
    """One pass over one table: ``columns`` (None: all) of the rows that meet
    ``predicate`` (None: all).
    """

    def __init__(
        self,
        place: FileStore,
        table: str,
        notices: Notices,
        columns: Sequence[str] | None,
        predicate: pl.Expr | None,
    ) -> None:
        self._place, self._table, self._notices, self._predicate = place, table, notices, predicate
        self._columns = list(columns_of(table)) if columns is None else list(columns)
        asked = predicate.meta.root_names() if predicate is not None else []
        self._read = list(dict.fromkeys([*self._columns, *asked])) or ["time"]
        self._possible = Possible(predicate, columns_of(table))
        self._logged: dict[
            str, set[int]
        ] = {}  # numbers of the observations that come from the log, by boot

    def frames(self) -> Iterator[pl.DataFrame]:
        """Rows in pieces; the first may be empty."""
        yield self.logged()
        for pieces in self._each(self._pieces):
            yield from (self._finish(rows, certain=certain) for rows, certain in pieces)

    def logged(self) -> pl.DataFrame:
        """Rows that come from the write-ahead log; those of them that files hold too
        are then left out there.
        """
        return self._finish(self._from_log())

    def tables(self) -> Iterator[pa.Table]:
        """The columns of all rows that may meet the question, as arrow tables: conditions prune,
        and are not applied to rows.
        """
        yield self._from_log().select(self._columns)
        for pieces in self._each(self._pieces):
            yield from (rows.select(self._columns) for rows, _ in pieces)

    def _from_log(self) -> pa.Table:
        logged = self._place.logged().get(self._table)
        if logged is None:
            return _empty(self._table)
        for boot, seq in zip(*(logged[name].to_pylist() for name in KEY), strict=True):
            self._logged.setdefault(boot, set()).add(seq)
        return logged

    def files(self, work: Callable[[pq.ParquetFile, list[int]], _R]) -> Iterator[_R]:
        """What ``work`` makes of every file that may hold rows of the question, given
        its row groups that may.

        A ForeignError in it leaves the file out, named.
        """
        yield from self._each(partial(self._opened, work))

    def _each(self, work: Callable[[Stored], _R]) -> Iterator[_R]:
        """What ``work`` makes of every readable file that may hold rows of the question,
        days and files in order.
        """
        days = self._may_hold([(day, DAY_US) for day in self._place.days(self._table)])
        for number, (day, _) in enumerate(days):
            of_day = [(day + hour * HOUR_US, HOUR_US) for hour in range(24)]
            hours = {(begin - day) // HOUR_US for begin, _ in self._may_hold(of_day)}
            with self._place.day(self._table, day, hours) as wanted:
                for done, made in enumerate(
                    _in_order(partial(self._try, work), wanted, self._place.at_once)
                ):
                    yield from made
                    self._notices.progress((number + (done + 1) / len(wanted)) / len(days))

    def _try(self, work: Callable[[Stored], _R], file: Stored) -> list[_R]:
        """What ``work`` makes of a file; nothing of one that cannot be read, which is named."""
        try:
            return [work(file)]
        except ForeignError as error:
            self._notices.leave_out(str(error))
        except PermissionError as error:
            self._notices.leave_out(f"{file.path}: {error.strerror}")
        return []

    def _may_hold(self, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Those spans of time (begin, length) whose reads may have brought
        rows that meet the question.
        """
        late = HOUR_US if self._table in KINDS or self._table == "reads" else DAY_US
        late = EVENT_LATE_US if self._table == "events" else late
        first = [_moment(begin - late) for begin, _ in spans]
        last = [_moment(begin + length + HOUR_US) for begin, length in spans]
        possible = self._possible.places({"time": (first, last)}, len(spans))
        return [span for span, keep in zip(spans, possible, strict=True) if keep]

    def _finish(self, rows: pa.Table, *, certain: bool = False) -> pl.DataFrame:
        """Rows as they are asked for: one step for polars, each of which has its price; where it is
        ``certain`` that all of them are, without a look at what else the question names.
        """
        if not len(rows):
            return pl.DataFrame(
                schema={name: columns_of(self._table)[name] for name in self._columns}
            )
        frame = pl.DataFrame(rows.select(self._columns if certain else self._read))
        words = [name for name, kind in frame.schema.items() if kind == pl.Categorical]
        if certain or self._predicate is None:
            return frame.with_columns(pl.col(words).cast(pl.String)) if words else frame
        wanted = frame.lazy().with_columns(pl.col(words).cast(pl.String))
        return wanted.filter(self._predicate).select(self._columns).collect()

    def _opened(self, work: Callable[[pq.ParquetFile, list[int]], _R], file: Stored) -> _R:
        with file.opened(self._table) as opened, named(file.path):
            return work(opened, self._possible.groups(opened.metadata).possible)

    def _pieces(self, file: Stored) -> list[tuple[pa.Table, bool]]:
        """Rows of a file that may meet the question, without those that came from the log, and
        whether all of them do.
        """
        with file.opened(self._table) as opened:
            groups, certain = self._possible.groups(opened.metadata)
            certain = certain if self._columns else frozenset()
            return [
                (piece, some[0] in certain)
                for some in _bundles(opened.metadata, groups, certain)
                for piece in self._decode(file, opened, some, certain=some[0] in certain)
            ]

    def _decode(
        self, file: Stored, opened: pq.ParquetFile, groups: list[int], *, certain: bool
    ) -> Iterator[pa.Table]:
        """Some row groups; where they are damaged one by one, and the damaged ones are left out."""
        again = self._overlaps(opened.metadata, groups)
        wanted = list(self._columns if certain else self._read)
        wanted += [name for name in KEY if again and name not in wanted]
        try:
            with named(file.path):
                have = _present(opened.metadata.schema, wanted)
                rows = conform(opened.read_row_groups(groups, columns=have), self._table, wanted)
                yield self._without_logged(rows) if again else rows
        except ForeignError as error:
            if len(groups) > 1:
                for group in groups:
                    yield from self._decode(file, opened, [group], certain=certain)
            else:
                self._notices.leave_out(f"{error} (row group {groups[0]})")

    def _overlaps(self, about: pq.FileMetaData, groups: list[int]) -> bool:
        """Whether rows of these groups may have come from the log already."""
        if not self._logged:
            return False
        first = min(min(numbers) for numbers in self._logged.values())
        at = about.schema.names.index("seq")
        newest = [about.row_group(group).column(at).statistics for group in groups]
        return any(s is None or not s.has_min_max or s.max >= first for s in newest)

    def _without_logged(self, rows: pa.Table) -> pa.Table:
        fresh = np.ones(len(rows), np.bool_)
        for boot, numbers in self._logged.items():
            of_boot = pc.equal(rows["boot_id"].cast(pa.string()), boot).to_numpy()
            fresh &= ~(of_boot & np.isin(rows["seq"].to_numpy(), np.fromiter(numbers, np.int64)))
        return rows.filter(pa.array(fresh))


def _present(columns: pq.ParquetSchema, wanted: Sequence[str]) -> list[str]:
    """Those of some columns that a file has. Its own names are those of leaves, which a list's
    column has one of: only for these each path is looked at.
    """
    have = set(columns.names)
    if not have.issuperset(wanted):
        have = {columns.column(i).path.partition(".")[0] for i in range(len(columns))}
    return [name for name in wanted if name in have]


def _bundles(
    about: pq.FileMetaData, groups: Sequence[int], certain: frozenset[int]
) -> Iterator[list[int]]:
    """Row groups in lists of at most CHUNK_ROWS rows, all or none of them ``certain``."""
    bundle: list[int] = []
    rows = 0
    for group in groups:
        full = rows + about.row_group(group).num_rows > CHUNK_ROWS
        if bundle and (full or (group in certain) != (bundle[0] in certain)):
            yield bundle
            bundle, rows = [], 0
        bundle.append(group)
        rows += about.row_group(group).num_rows
    if bundle:
        yield bundle


def _in_order(work: Callable[[_T], _R], items: Sequence[_T], at_once: int) -> Iterator[_R]:
    """Results in the order of the items, with a bounded number under way."""
    if at_once == 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(at_once) as pool:
        ahead: deque[Future[_R]] = deque()
        for item in items:
            ahead.append(pool.submit(partial(work, item)))
            if len(ahead) > at_once:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def _moment(time_us: int) -> datetime:
    return EPOCH + timedelta(microseconds=time_us)
