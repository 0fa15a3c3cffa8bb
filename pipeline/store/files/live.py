"""Which files count at this moment: every row once, while files are sealed, compacted and removed
while they are read.

A compacted file's footer names what it replaces (relative to the folder of its day). It gets its
name when it is complete, and only then are its sources removed; so a reader that lists sources
first and compacted files second sees every row, and leaves out what is replaced.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import orjson
import pyarrow.parquet as pq

from pipeline.store.files.layout import (
    DAY_US,
    HOUR_US,
    dates_of,
    day_us,
    folder,
    hour_of,
    is_ours,
    owner_of,
)
from pipeline.store.files.parquet import ForeignError, check, named

REPLACES, HOURS = "tocsin.replaces", "tocsin.hours"  # keys in a compacted file's footer
TRIES = 5  # a file that vanishes while it is looked at was replaced: look again


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compacted file's footer says: names it replaces, relative to the day's folder, and the
    hours that its rows were read in.
    """

    replaces: frozenset[str]
    hours: frozenset[int]


def live_files(root: Path, table: str, hours: Iterable[int] | None = None) -> list[Path]:
    """Files of a table that count now, oldest day first, for the hours given (unix time in
    microseconds within them) or for all.

    A compacted file holds its whole day: the reader picks its rows. Opening one of these files may
    still fail with FileNotFoundError when it was replaced in the meantime: ask again then.
    """
    if hours is None:
        return [path for date in dates_of(root, table) for path in live_of_day(date)]
    wanted = {root / folder(table, hour) for hour in hours}
    return [
        path
        for date in sorted({hour.parent for hour in wanted})
        for path in live_of_day(date)
        if path.parent == date or path.parent in wanted
    ]


def live_of_day(date: Path) -> list[Path]:
    """Files of one day's folder that count: hourly ones, then compacted ones."""
    for last in (False,) * (TRIES - 1) + (True,):
        try:
            return _live(date)
        except FileNotFoundError:
            if last:
                raise
    return []


def hours_of(root: Path, table: str = "reads") -> list[int]:
    """Hours that a table has files of, oldest first, as unix time in microseconds."""
    found: set[int] = set()
    for date in dates_of(root, table):
        day = day_us(date) or 0
        for path in live_of_day(date):
            hour = hour_of(path.parent)
            hours = (
                compacted(path).hours if path.parent == date else () if hour is None else (hour,)
            )
            found |= {day + hour * HOUR_US for hour in hours}
    return sorted(found)


def compacted(path: Path) -> Compacted:
    """What a compacted file says of itself; nothing replaced and every hour
    where it cannot be read.

    FileNotFoundError where it has gone.
    """
    stat = path.stat()
    return _compacted(path, stat.st_mtime_ns, stat.st_size)


def replaced_by(days: Iterable[Path]) -> frozenset[str]:
    """Names, relative to the day's folder, that these compacted files replace; each counts for
    its own cluster and node only.
    """
    return frozenset(
        name
        for path in days
        for name in compacted(path).replaces
        if owner_of(name.rpartition("/")[2]) == owner_of(path.name)
    )


def _live(date: Path) -> list[Path]:
    hourly = sorted(filter(is_ours, date.glob("hour=*/*.parquet")))
    days = sorted(filter(is_ours, date.glob("*.parquet")))
    if not days or len(days) + len(hourly) == 1:
        return hourly + days
    replaced = replaced_by(days)
    return [path for path in hourly + days if path.relative_to(date).as_posix() not in replaced]


@lru_cache(maxsize=16_384)  # a day of a cluster: a file per node and table
def _compacted(path: Path, _mtime_ns: int, _size: int) -> Compacted:
    try:
        check(path)
        with named(path):
            about = pq.read_metadata(path).metadata or {}
            replaces = frozenset(map(str, orjson.loads(about.get(REPLACES.encode(), b"[]"))))
            hours = frozenset(
                map(int, orjson.loads(about.get(HOURS.encode(), orjson.dumps([*range(24)]))))
            )
    except ForeignError:  # the reader of its rows names it
        return Compacted(frozenset(), frozenset(range(DAY_US // HOUR_US)))
    return Compacted(replaces, hours)
