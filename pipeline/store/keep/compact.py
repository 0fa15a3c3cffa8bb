"""Compaction on a node: the files of a day that is over become one per table, with roll-ups
beside the measurements.

Idempotent after a crash at any point: a compacted file gets its name when it is whole and lists
what it replaces; only then are its sources removed. A file that comes late re-opens its day under
the next generation.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa

from pipeline.catalog import KINDS
from pipeline.store.files.columns import of_sources
from pipeline.store.files.layout import (
    DAY_US,
    HOUR_US,
    Stranger,
    dates_of,
    day_folder,
    day_us,
    owner_of,
    write_whole,
)
from pipeline.store.files.live import live_of_day
from pipeline.store.files.merge import merge
from pipeline.store.files.parquet import (
    DiskError,
    ForeignError,
    NewerFileError,
    Writer,
)
from pipeline.store.files.quarantine import quarantine
from pipeline.store.files.readers import Readers
from pipeline.store.files.schema import TABLES, schema
from pipeline.store.keep.changes import changes_only
from pipeline.store.keep.generations import Pass, about, next_name, sweep
from pipeline.store.keep.rollup import roll_up

# A day is over for us when its last segment must have been sealed: a quarter of an hour, the
# sealing itself, and as much again.
GRACE_US = HOUR_US // 2
SCRATCH = ".compact"


@dataclass(slots=True)
class Done:
    """What a compaction did: files written, files removed as they were replaced, files in
    quarantine now with the reason, files that hold up their day and why.
    """

    written: int = 0
    replaced: int = 0
    quarantined: list[str] = field(default_factory=list)
    waiting: dict[Path, Stranger] = field(default_factory=dict)


def compact(over: Pass) -> Done:
    """Compact every day that is over, oldest first; what was done.

    OSError where the disk refuses.
    """
    root = over.root
    done = Done()
    shutil.rmtree(root / SCRATCH, ignore_errors=True)  # of a run that was killed
    try:
        for day in sorted(
            {day_us(date) or 0 for table in TABLES for date in dates_of(root, table)}
        ):
            if day + DAY_US + GRACE_US <= over.now_us:
                for table in TABLES:
                    _Day(over, table, day, done).compact()
    finally:
        shutil.rmtree(root / SCRATCH, ignore_errors=True)
    return done


class _Day:
    """One table's day: what is there, and how it becomes one file per owner."""

    def __init__(self, over: Pass, table: str, day: int, done: Done) -> None:
        self._over, self._table, self._day, self._done = over, table, day, done
        self._root, self._step = over.root, over.step
        self._date = over.root / day_folder(table, day)

    def compact(self) -> None:
        """Bring the day to one file per owner, where it is not so already, and
        its roll-ups up to date.
        """
        if not self._date.is_dir():
            return
        self._sweep()
        owners: dict[str, list[Path]] = defaultdict(list)
        for path in live_of_day(self._date):
            owners[owner_of(path.name)].append(path)
        for owner, paths in sorted(owners.items()):
            whole = self._merge(owner, paths)
            if whole is not None and self._table in KINDS:
                self._roll_up(whole)

    def _merge(self, owner: str, paths: list[Path]) -> Path | None:
        """The one compacted file of an owner, written if need be; None where there
        is nothing to make one of.
        """
        while paths:
            if len(paths) == 1 and paths[0].parent == self._date:
                return paths[0]
            try:
                with Readers(self._table) as readers:
                    columns = [readers.columns(path) for path in paths]
                    known = self._known(columns)
                    return self._write(owner, paths, columns, readers) if known else None
            except (DiskError, NewerFileError) as error:
                self._wait(error)
                return None
            except ForeignError as error:
                self._quarantine(error)
                paths = [path for path in paths if path != error.path]
        return None

    def _known(self, columns: Iterable[pa.Schema]) -> bool:
        """Whether this version has a place for all columns of these files: merging must not lose
        those of a newer catalogue, so such a day waits.
        """
        mine = set(schema(self._table).names)
        return all(mine.issuperset(found.names) for found in columns)

    def _write(
        self, owner: str, sources: Sequence[Path], columns: Iterable[pa.Schema], readers: Readers
    ) -> Path:
        target = self._date / next_name(self._date, owner)
        self._step(f"write {target}")
        write_whole(
            target,
            partial(
                _merged,
                sources,
                self._table,
                of_sources(self._table, columns),
                about(self._date, sources),
                self._root / SCRATCH,
                readers,
            ),
        )
        self._done.written += 1
        self._sweep()
        return target

    def _roll_up(self, whole: Path) -> None:
        while whole.exists():
            try:
                self._done.written += roll_up(self._over, self._table, self._day, whole)
                return
            except (DiskError, NewerFileError) as error:
                self._wait(error)
                return
            except ForeignError as error:
                self._quarantine(error)

    def _wait(self, error: ForeignError) -> None:
        """Leave the day as it is: a newer version, or a disk that is back, will read the file."""
        self._done.waiting[error.path] = "disk" if isinstance(error, DiskError) else "newer"

    def _quarantine(self, error: ForeignError) -> None:
        """Put a file that cannot be read out of the way; the error is raised where it is no file
        of the layout, or for lack of memory.
        """
        if error.path.is_relative_to(self._root / SCRATCH) or isinstance(
            error.__cause__, MemoryError
        ):
            raise error
        self._step(f"quarantine {error.path}")
        quarantine(self._root, error.path, str(error))
        self._done.quarantined.append(str(error))

    def _sweep(self) -> None:
        self._done.replaced += sweep(self._over, self._date)


def _merged(  # noqa: PLR0917 - the file comes last, as write_whole gives it
    sources: Sequence[Path],
    table: str,
    columns: pa.Schema,
    footer: dict[str, str],
    scratch: Path,
    readers: Readers,
    path: Path,
) -> None:
    with Writer(table, path, columns, footer) as file:
        if table == "devices":
            file.write(changes_only(sources))
        else:
            merge(sources, table, file, scratch, readers)
