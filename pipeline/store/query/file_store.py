"""Where the files of a store lie while it is asked: a node's own folder, with what its write-ahead
log still holds, or an object store.

A *day* is the unit in which rows are seen once: what a compacted file replaces lies
in the same day's folder.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.open_files import raise_open_files
from pipeline.store.files.layout import dates_of, day_us, hour_of, owner_of
from pipeline.store.files.live import REPLACES, TRIES, live_of_day
from pipeline.store.files.parquet import ForeignError, named, opened
from pipeline.store.files.unsealed import unsealed
from pipeline.store.files.wal import segments
from pipeline.store.remote.manifest import Sized, listed, live_among
from pipeline.store.remote.objects import Objects, RefusedError

# an object up to this size is fetched in one request: sealed files have some 100 kB
WHOLE_BYTES = 4 << 20
# kept for the next look at the same file: parsing that of a day with its 25,000
# column chunks takes 10 ms
MAX_FOOTERS = 16


class ChangingError(RuntimeError):
    """Files were replaced faster than they could be opened: ask again."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One file: its name for messages, the hour of the reads whose rows it holds (None: the whole
    day), how to get at its bytes.
    """

    path: Path
    hour: int | None
    source: Callable[[], Any]
    footers: dict[Any, pq.FileMetaData] = field(default_factory=dict)
    key: Any = None  # of its footer in ``footers``

    @contextmanager
    def opened(self, table: str) -> Iterator[pq.ParquetFile]:
        """The file, checked; ForeignError where it is damaged or foreign."""
        with opened(self.path, table, self.source(), self.footers.get(self.key)) as file:
            if self.key is not None:
                _keep(self.footers, self.key, file.metadata)
            yield file


class FileStore(Protocol):
    """Where files are. ``at_once`` says how many are worth reading at the same time."""

    at_once: int

    def logged(self) -> dict[str, pa.Table]:
        """What no file holds yet, by table; asked before the files are."""
        ...

    def days(self, table: str) -> Sequence[int]:
        """Days that a table has files of: unix time in microseconds of
        their begins, oldest first.
        """
        ...

    @contextmanager
    def day(self, table: str, begin_us: int, hours: Collection[int]) -> Iterator[list[Stored]]:
        """The files that count of some hours (0 to 23) of a day, and of the whole day, each row in
        one of them; they stay readable until the end of the block.
        """
        ...


class Folder:
    """The store below a local folder, of a running agent, of a dead one, or shared by many."""

    at_once = 1

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: tuple[Any, dict[str, pa.Table]] = (None, {})
        self._footers: dict[Any, pq.FileMetaData] = {}

    def logged(self) -> dict[str, pa.Table]:
        """Read again when a segment was written to, added or sealed."""
        _may_list(self._root / "wal")
        now = [
            (path.name, path.stat().st_size)
            for path in segments(self._root / "wal")
            if path.exists()
        ]
        if self._known[0] != now:
            self._known = (now, unsealed(self._root / "wal"))
        return self._known[1]

    def days(self, table: str) -> list[int]:
        """By the names of folders."""
        _may_list(self._root / table)
        return [
            begin for date in dates_of(self._root, table) if (begin := day_us(date)) is not None
        ]

    @contextmanager
    def day(self, table: str, begin_us: int, hours: Collection[int]) -> Iterator[list[Stored]]:
        """All opened before the first is read: a file that is replaced and removed
        meanwhile stays readable.
        """
        dates = [date for date in dates_of(self._root, table) if day_us(date) == begin_us]
        for folder in _may_list(dates[0]) if dates else ():
            if hour_of(folder) in hours:
                _may_list(folder)
        with ExitStack() as stack:  # a day may have been given up since they were listed
            yield _open_all(dates[0], hours, stack, self._footers) if dates else []


class Bucket:
    """The same layout in an object store; its objects never change."""

    at_once = 8  # requests; more only queue at the store

    def __init__(self, store: Objects, name: str) -> None:
        self._store, self._name = store, name
        # of each day of a table: what a cluster's compactor made, and the nodes' own
        self._listed: dict[str, dict[int, tuple[Sized, Sized]]] = {}

    def logged(self) -> dict[str, pa.Table]:
        """Nodes keep their logs to themselves."""
        return {}

    def days(self, table: str) -> list[int]:
        """By a listing of the table, and one of what a cluster's compactor made of it."""
        found: dict[int, tuple[Sized, Sized]] = {}
        for number, keys in enumerate(listed(self._store, f"{table}/")):
            for key, size in keys:
                if (begin := day_us(Path(_date(key)))) is not None:
                    found.setdefault(begin, ([], []))[number].append((key, size))
        self._listed[table] = found
        return sorted(found)

    @contextmanager
    def day(self, table: str, begin_us: int, hours: Collection[int]) -> Iterator[list[Stored]]:
        """As listed, without what compacted files replace."""
        # manifests of other hours are not asked for: a store has thousands
        compacted, own = (
            [one for one in some if (hour := hour_of(Path(one[0]).parent)) is None or hour in hours]
            for some in self._listed[table][begin_us]
        )
        try:
            live = live_among(self._store, compacted, own)
        except ValueError as error:
            # a manifest that cannot be read: what counts is not known, so nothing is guessed
            raise RefusedError("other", str(error)) from error
        files = {key: self._stored(key, size) for key, size in live}
        replaced: set[str] = set()
        for key, file in files.items():
            if file.hour is None:
                replaced |= {
                    f"{_date(key)}/{name}"
                    for name in _replaces(file, table)
                    if _same_owner(name, file)
                }
        yield [file for key, file in files.items() if key not in replaced]

    def _stored(self, key: str, size: int) -> Stored:
        small = size <= WHOLE_BYTES
        source = partial(self._whole, key) if small else partial(self._ranges, key, size)
        return Stored(self._path(key), hour_of(Path(key).parent), source)

    def _whole(self, key: str) -> Any:
        with _there(self._path(key)):
            return pa.BufferReader(self._store.get(key))

    def _ranges(self, key: str, size: int) -> Any:
        return pa.PythonFile(_Ranges(self._store, key, size, self._path(key)), mode="r")

    def _path(self, key: str) -> Path:
        return Path(f"{self._name}/{key}")


@contextmanager
def _there(path: Path) -> Iterator[None]:
    """An object that has gone is that of one file: rules of a bucket may remove what a manifest
    names.
    """
    try:
        yield
    except RefusedError as error:
        if error.cause != "no_bucket":
            raise
        raise ForeignError(path, "the store no longer has it") from error


class _Ranges(io.RawIOBase):
    """An object as a file: every read is a request. ``path`` names it in errors."""

    def __init__(self, store: Objects, key: str, size: int, path: Path) -> None:
        super().__init__()
        self._store, self._key, self._size, self._at = store, key, size, 0
        self._path = path

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        length = min(size if size >= 0 else self._size, self._size - self._at)
        with _there(self._path):
            data = self._store.part(self._key, self._at, length) if length > 0 else b""
        self._at += len(data)
        return data


def _may_list(folder: Path) -> list[Path]:
    """What a folder has; PermissionError where it may not be listed: ``Path.glob`` takes it for an
    empty one, and the answer would be that nothing happened.
    """
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as found:
        return [Path(one.path) for one in found]
    return []


def _open_all(
    date: Path, hours: Collection[int], stack: ExitStack, footers: dict[Any, pq.FileMetaData]
) -> list[Stored]:
    """Files of a day that count, open.

    Looks again where one was replaced before it could be opened, and where as many are open as this
    process may have, but may allow itself more.
    """
    for _ in range(TRIES):
        paths = [p for p in live_of_day(date) if (h := hour_of(p.parent)) is None or h in hours]
        with ExitStack() as tried:
            try:
                files = [_open(path, tried, footers) for path in paths]
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno != errno.EMFILE or raise_open_files() <= len(paths):
                    raise
                continue
            stack.push(tried.pop_all())
            return files
    raise ChangingError(f"{date}: its files keep changing, ask again")


def _open(path: Path, stack: ExitStack, footers: dict[Any, pq.FileMetaData]) -> Stored:
    file = stack.enter_context(pa.OSFile(os.fspath(path), "r"))
    stat = path.stat()
    return Stored(
        path,
        hour_of(path.parent),
        lambda: file,
        footers,
        (path, stat.st_ino, stat.st_mtime_ns, stat.st_size),
    )


def _keep(footers: dict[Any, pq.FileMetaData], key: Any, footer: pq.FileMetaData) -> None:
    if len(footers) >= MAX_FOOTERS and key not in footers:
        del footers[next(iter(footers))]
    footers[key] = footer


def _date(key: str) -> str:
    """The day's folder that an object lies in, itself or in one of its hours."""
    folder = Path(key).parent
    return (folder if hour_of(folder) is None else folder.parent).as_posix()


def _same_owner(name: str, file: Stored) -> bool:
    """A compacted file counts for its own cluster and node only."""
    return owner_of(name.rpartition("/")[2]) == owner_of(file.path.name)


def _replaces(file: Stored, table: str) -> list[str]:
    try:
        with file.opened(table) as whole, named(file.path):
            about = whole.metadata.metadata or {}
            return list(map(str, orjson.loads(about.get(REPLACES.encode(), b"[]"))))
    except ForeignError:  # the reader of its rows names it
        return []
