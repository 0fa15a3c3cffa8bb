"""Files of one table that are read several times, each opened and its footer parsed once."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.store.files.parquet import opened

# Open at once: a day of a node has about 150 files of a table; a process may open 1024.
MAX_OPEN = 256


class Readers:
    """Open files by path. Beyond MAX_OPEN the one opened first is closed, and opened again."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._open: dict[Path, tuple[ExitStack, pq.ParquetFile]] = {}
        self._columns: dict[Path, pa.Schema] = {}

    def file(self, path: Path) -> pq.ParquetFile:
        """A file, checked. ForeignError where it is damaged or foreign, FileNotFoundError where it
        has gone; what is raised while it is read is the caller's to name.
        """
        if path not in self._open:
            while len(self._open) >= MAX_OPEN:
                self._open.pop(next(iter(self._open)))[0].close()
            with ExitStack() as stack:
                file = stack.enter_context(opened(path, self._name))
                self._open[path] = stack.pop_all(), file
        return self._open[path][1]

    def columns(self, path: Path) -> pa.Schema:
        """Columns of a file, as it has them."""
        if path not in self._columns:
            self._columns[path] = self.file(path).schema_arrow
        return self._columns[path]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stack, _file in self._open.values():
            stack.close()
        self._open = {}
