"""The store as a small Python API: tables as polars lazy frames, SQL, and what could not be read.

>>> from pipeline.store.query.store import Store
>>> Store("/var/lib/tocsin").table("gpu").select(
...     "time", "device", "power_milliwatts"
... )  # doctest: +SKIP
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any, TypeVar

import polars as pl
from polars.exceptions import PolarsError

from pipeline.catalog import KINDS
from pipeline.store.files.schema import ROLLUPS, TABLES
from pipeline.store.files.units import SUFFIX, in_base_units
from pipeline.store.query.file_store import Bucket, ChangingError, FileStore, Folder
from pipeline.store.query.scan import Notices, Scan, scan
from pipeline.store.remote.manifest import ROOT as COMPACTED
from pipeline.store.remote.objects import open_objects
from pipeline.store.remote.upload_plan import Target

TRIES = 3
_R = TypeVar("_R")
MAX_ERROR = 300  # characters
_TIME_HINT = (
    "; compare time with text, such as time >= '2026-11-20 07:00', or bound the question by --since"
)


class SqlError(ValueError):
    """What is wrong with the text of a SQL question, in one line."""


@dataclass(frozen=True, slots=True)
class Window:
    """From ``since`` up to but not including ``until``, both with a time zone; None is open.

    ``devices`` are ids, none means all.
    """

    since: datetime | None = None
    until: datetime | None = None
    devices: tuple[str, ...] = ()

    def rows(self) -> list[pl.Expr]:
        """Conditions on the columns time and device."""
        found = []
        if self.since is not None:
            found.append(pl.col("time") >= pl.lit(self.since.astimezone(UTC)))
        if self.until is not None:
            found.append(pl.col("time") < pl.lit(self.until.astimezone(UTC)))
        return found + ([pl.col("device").is_in(list(self.devices))] if self.devices else [])


class Store:
    """A store below a local folder (of an agent that runs or not), or at
    ``s3://``, ``gs://``, ``az://``.

    ``target`` says how a remote store is reached, beside its URL (endpoint, region, credentials
    file); without it the environment and the instance's identity do. ``progress`` is called with
    the share of a scan that is done, 0 to 1. FileNotFoundError where the folder does not exist,
    ValueError for a URL of another kind, objects.RefusedError where a remote store refuses.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        target: Target | None = None,
        progress: Callable[[float], object] | None = None,
    ) -> None:
        self._place = _place(str(root), target)
        self._notices = Notices() if progress is None else Notices(progress)

    @property
    def left_out(self) -> Sequence[str]:
        """Files, or parts of them, that could not be read so far, each with the reason."""
        return self._notices.left_out

    def table(self, name: str, window: Window = Window()) -> pl.LazyFrame:
        """Rows of a table in native units; conditions and columns of what follows
        decide what is read at all.

        KeyError: no such table.
        """
        return scan(self._place, name, self._notices).filter(*window.rows())

    def logged(self, name: str, window: Window = Window()) -> pl.DataFrame:
        """Those rows of a table that no file holds yet."""
        return Scan(self._place, name, self._notices, None, _all_of(window)).logged()

    def pieces(self, name: str, columns: Sequence[str], window: Window = Window()) -> Iterator[Any]:
        """Columns of the rows that may lie in a window, as arrow tables: whole row groups,
        so that some lie outside.
        """
        return Scan(self._place, name, self._notices, columns, _all_of(window)).tables()

    def files(
        self, name: str, work: Callable[[Any, list[int]], _R], window: Window = Window()
    ) -> Iterator[_R]:
        """What ``work`` makes of each file (pyarrow.parquet.ParquetFile) that may hold rows of a
        window, and its row groups that may.
        """
        return Scan(self._place, name, self._notices, None, _all_of(window)).files(work)

    def base(self, name: str, window: Window = Window()) -> pl.LazyFrame:
        """Rows of a table of devices in base units. KeyError where there is no such table."""
        return in_base_units(self.table(name, window), name)

    def sql(self, text: str, window: Window = Window()) -> pl.DataFrame:
        """Answer of a SQL question over the tables by name (``gpu``) and the views in
        base units (``gpu_base``).

        SqlError says what is wrong with the text.
        """
        words = set(re.findall(r"\w+", text))
        frames = {name: self.table(name, window) for name in names() if name in words}
        frames |= {
            f"{kind}{SUFFIX}": self.base(kind, window)
            for kind in KINDS
            if f"{kind}{SUFFIX}" in words
        }
        try:
            return self.collect(pl.SQLContext(frames, eager=False).execute(text))
        except PolarsError as error:  # polars appends the whole plan
            known = "" if frames else f"; tables are {', '.join(names())}"
            why = _first_words(str(error))
            # NOW(), TIMESTAMP '...' and INTERVAL have no zone in polars
            about_time = _TIME_HINT if "comparison" in why and "'UTC'" in why else ""
            raise SqlError(why + known + about_time) from error

    def collect(self, rows: pl.LazyFrame) -> pl.DataFrame:
        """The answer of a lazy frame of this store.

        ChangingError where files are replaced faster than they can be opened.
        """
        for _ in range(TRIES - 1):
            try:
                return rows.collect()
            except ChangingError:
                continue
        return rows.collect()


def _first_words(text: str) -> str:
    """What an error of polars says before it shows the whole plan, or all columns."""
    line = " ".join(text.partition("\n\n")[0].split())
    return line if len(line) <= MAX_ERROR else line[: MAX_ERROR - 3] + "..."


def _all_of(window: Window) -> pl.Expr | None:
    conditions = window.rows()
    return reduce(and_, conditions) if conditions else None


def names() -> tuple[str, ...]:
    """Names of all tables, roll-ups among them."""
    return (*TABLES, *ROLLUPS)


def _place(root: str, target: Target | None) -> FileStore:
    if "://" in root:
        return Bucket(
            open_objects(replace(target, url=root) if target else Target(root)), root.rstrip("/")
        )
    if not Path(root).is_dir():
        raise FileNotFoundError(f"{root}: there is no such folder")
    if (Path(root) / COMPACTED).is_dir():  # a directory that a cluster shares
        return Bucket(open_objects(Target(str(Path(root).absolute()))), root.rstrip("/"))
    return Folder(Path(root))
