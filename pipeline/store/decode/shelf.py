"""Files of a store hour by hour, each opened once."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from pipeline.catalog import KINDS
from pipeline.store.decode.groups import Group, Piece
from pipeline.store.files.layout import HOUR_US, hour_of
from pipeline.store.files.live import TRIES, live_files
from pipeline.store.files.parquet import ForeignError, opened
from pipeline.store.files.schema import schema

log = logging.getLogger("tocsin.replay")
FOREVER_US = 1 << 62
TIMED = (*KINDS, "reads")  # tables whose rows have the time of their read


class Shelf:
    """Rows below ``root``, hours in rising order. What cannot be read is named in the log, once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: dict[Path, _File] = {}
        self._named: set[str] = set()

    def hour(self, table: str, hour_us: int) -> list[Piece]:
        """Pieces of a table with the rows of an hour's reads, and a few of their neighbours'."""
        return [
            piece for file in self._open(table, hour_us) for piece in self._pieces(file, hour_us)
        ]

    def _pieces(self, file: _File, hour_us: int) -> Iterator[Piece]:
        # Attributes hold until they change, and events have times of their own.
        everything = not file.is_day or file.table not in TIMED
        span = (-FOREVER_US, FOREVER_US) if everything else (hour_us, hour_us + HOUR_US)
        for group in list(file.groups):
            try:
                piece = group.take(*span)
            except ForeignError as error:
                self.name(f"skipped: {error}")
                file.groups.remove(group)
                continue
            if piece is not None:
                yield piece

    def _open(self, table: str, hour_us: int) -> list[_File]:
        """Files of an hour; those of other hours and days are closed."""
        for _ in range(TRIES):
            try:
                paths = live_files(self._root, table, [hour_us])
                self._keep(table, paths)
                return [file for path in paths if (file := self._file(path, table)) is not None]
            except FileNotFoundError:  # replaced by a compacted file
                continue
        raise FileNotFoundError(f"{self._root / table}: its files keep changing")

    def _keep(self, table: str, paths: list[Path]) -> None:
        for path in [p for p, f in self._files.items() if f.table == table and p not in paths]:
            self._files.pop(path).close()

    def _file(self, path: Path, table: str) -> _File | None:
        if path not in self._files:
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

    def name(self, what: str) -> None:
        """Warn, once."""
        if what not in self._named:
            self._named.add(what)
            log.warning("%s", what)

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()
        self._files = {}

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
