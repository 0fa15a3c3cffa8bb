"""Files of a store hour by hour, each opened once."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from contextlib import ExitStack
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit
from typing import Self

from pipeline.catalog import KINDS
from pipeline.store.decode.groups import Group, Piece
from pipeline.store.files.layout import HOUR_US, hour_of, may_hold
from pipeline.store.files.live import TRIES, live_files
from pipeline.store.files.parquet import ForeignError, opened
from pipeline.store.files.schema import schema

log = logging.getLogger("tocsin.replay")
FOREVER_US = 1 << 62
OPEN_SHARE = 2  # of the files that the process may open, one in so many
TIMED = (*KINDS, "reads")  # tables whose rows have the time of their read


class Shelf:
    """Rows below ``root``, hours in rising order. What cannot be read is named in the log, once.

    Files of an hour are read at once. Those of a day stay open for its other hours, as many as may
    be where so many ``shelves`` are read in turn: one that was closed meanwhile is read from its
    begin again.
    """

    def __init__(
        self,
        root: Path,
        max_open: int | None = None,
        hosts: Collection[str] = (),
        shelves: int = 1,
    ) -> None:
        self._root, self._hosts = root, hosts
        all_open = getrlimit(RLIMIT_NOFILE)[0] // OPEN_SHARE
        self._max_open = max_open or max(1, all_open // shelves)
        self._files: dict[Path, _File] = {}
        self._named: set[str] = set()

    def hour(self, table: str, hour_us: int, boots: frozenset[bytes] | None = None) -> list[Piece]:
        """Pieces of a table with the rows of an hour's reads, and a few of their neighbours'; not
        those that cannot hold rows of these ``boots``.
        """
        for _ in range(TRIES):
            try:
                paths = [
                    path
                    for path in live_files(self._root, table, [hour_us])
                    if may_hold(path.name, self._hosts)
                ]
                self._close(
                    p for p, f in self._files.items() if f.table == table and p not in paths
                )
                return [piece for path in paths for piece in self._of(path, table, hour_us, boots)]
            except FileNotFoundError:  # replaced by a compacted file
                continue
        raise FileNotFoundError(f"{self._root / table}: its files keep changing")

    def _of(
        self, path: Path, table: str, hour_us: int, boots: frozenset[bytes] | None
    ) -> list[Piece]:
        """Pieces of one file."""
        file = self._file(path, table)
        if file is None:
            return []
        # Attributes hold until they change, and events have times of their own.
        everything = not file.is_day or file.table not in TIMED
        span = (-FOREVER_US, FOREVER_US) if everything else (hour_us, hour_us + HOUR_US)
        found = []
        for group in list(file.groups):
            if boots is not None and not group.may_hold(boots):
                continue
            try:
                piece = group.take(*span)
            except ForeignError as error:
                self.name(f"skipped: {error}")
                file.groups.remove(group)
                continue
            if piece is not None:
                found.append(piece)
        if not file.is_day:
            self._close([path])
        return found

    def _file(self, path: Path, table: str) -> _File | None:
        if path not in self._files:
            self._close(list(self._files)[: max(0, len(self._files) + 1 - self._max_open)])
            try:
                self._files[path] = _File(path, table)
            except ForeignError as error:
                self.name(f"skipped: {error}")
                return None
            except PermissionError as error:
                self.name(f"skipped: {path}: {error.strerror}")
                return None
            if unknown := self._files[path].unknown:
                self.name(f"{path}: written by a newer version, left out: {', '.join(unknown)}")
        return self._files[path]

    def _close(self, paths: Iterable[Path]) -> None:
        for path in list(paths):
            self._files.pop(path).close()

    def name(self, what: str) -> None:
        """Warn, once."""
        if what not in self._named:
            self._named.add(what)
            log.warning("%s", what)

    def close(self) -> None:
        """Close all files."""
        self._close(self._files)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _File:
    """An open file, and those of its columns that this version does not know."""

    def __init__(self, path: Path, table: str) -> None:
        self.table, self._stack = table, ExitStack()
        self.is_day = hour_of(path.parent) is None
        try:
            file = self._stack.enter_context(opened(path, table))
            self.groups = [Group(path, file, i, table) for i in range(file.num_row_groups)]
            names = file.schema.names if table in KINDS else ()
            self.unknown = sorted(set(names) - set(schema(table).names))
        except BaseException:
            self._stack.close()
            raise

    def close(self) -> None:
        self.groups = []
        self._stack.close()
