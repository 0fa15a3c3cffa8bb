"""Where files lie and how they are written: whole or not at all.

Sealed: ``<table>/date=YYYY-MM-DD/hour=HH/<cluster>-<node>-<boot>-<seq>.parquet``. Compacted, one
per node and day: ``<table>/date=YYYY-MM-DD/<cluster>-<node>-day-<generation>.parquet``. Which of
them count at a moment says live.py: ``live_files``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from stat import S_ISREG
from typing import Literal

Stranger = Literal["no_file", "name", "newer", "disk"]
STRANGERS: Mapping[Stranger, str] = {
    "no_file": "not a regular file",
    "name": "not a name of ours",
    "newer": "written by a newer version",
    "disk": "the disk cannot read it",
}
HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
# How long after it happened an event may be read: the last kernel lines of a boot are read at the
# next one, and a node with a broken part may be off for that long.
EVENT_LATE_US = 14 * DAY_US
_UNSAFE = re.compile(r"[^A-Za-z0-9_.]+")


def part(name: str) -> str:
    """A name for use in a file name: no separators, no dashes, never empty, bounded.

    >>> part("gpu-17.rack/4"), part("")
    ('gpu_17.rack_4', 'none')
    """
    return _UNSAFE.sub("_", name)[:64].strip(".") or "none"


@dataclass(frozen=True, slots=True)
class FileName:
    """Identity of one sealed file: the same segment gives the same names, so
    sealing twice changes nothing.
    """

    cluster: str
    host: str
    boot_id: str
    seq: int

    def __str__(self) -> str:
        return (
            f"{part(self.cluster)}-{part(self.host)}-{part(self.boot_id)}-{self.seq:016d}.parquet"
        )


_DAY = re.compile(r"(?P<owner>.+)-day-(?P<generation>\d+)\.parquet")


@dataclass(frozen=True, slots=True, order=True)
class DayName:
    """Name of a compacted file.

    ``owner`` is cluster and node as in the names of its sources; a later
    generation replaces earlier ones.

    >>> (
    ...     str(DayName("c1-n1", 2)),
    ...     DayName.of("c1-n1-day-0002.parquet"),
    ...     DayName.of("c1-n1-boot-0000000000000007.parquet"),
    ... )
    ('c1-n1-day-0002.parquet', DayName(owner='c1-n1', generation=2), None)
    """

    owner: str
    generation: int

    def __str__(self) -> str:
        return f"{self.owner}-day-{self.generation:04d}.parquet"

    @staticmethod
    def of(name: str) -> DayName | None:
        """The name read back, None where it is of another form."""
        match = _DAY.fullmatch(name)
        return DayName(match["owner"], int(match["generation"])) if match else None


_SEALED = re.compile(r"[^-/]+-[^-/]+-[^-/]+-\d{16,}\.parquet")
_OF_CLUSTER = re.compile(r"\d{6,}-\d{3,}-\d+_[0-9a-f]+\.parquet")
_OURS = (_SEALED, _DAY, _OF_CLUSTER)


def cluster_file(generation: int, number: int, now_us: int, run: str) -> str:
    """Name of a file that the cluster's compaction writes: of a generation of its hour, by a run
    whose name is hexadecimal, at a unix time in microseconds.

    >>> cluster_file(1, 0, 1_800_000_000_000_000, "2654fdb293fd")
    '000001-000-1800000000_2654fdb293fd.parquet'
    >>> bool(_OF_CLUSTER.fullmatch(cluster_file(1_000_000, 1000, 0, "0f")))
    True
    """
    return f"{generation:06d}-{number:03d}-{now_us // 1_000_000}_{run}.parquet"


def is_ours(path: Path) -> bool:
    """Whether this is a regular file with a name that sealing or compaction gives."""
    if not any(form.fullmatch(path.name) for form in _OURS):
        return False
    with suppress(OSError):
        return S_ISREG(path.lstat().st_mode)
    return False


def owner_of(name: str) -> str:
    """Cluster and node of a file's name, sealed or compacted.

    >>> owner_of("c1-n1-boot-0000000000000007.parquet"), owner_of("c1-n1-day-0001.parquet")
    ('c1-n1', 'c1-n1')
    """
    return "-".join(name.removesuffix(".parquet").split("-")[:2])


def may_hold(name: str, hosts: Collection[str]) -> bool:
    """Whether a file may hold rows of these hosts (none: all): a node's own files name it, others
    may have rows of any.

    >>> [may_hold("c1-n1-day-0001.parquet", hosts) for hosts in (["n1"], ["n2"], [])]
    [True, False, True]
    """
    of_one_node = name.count("-") == 3
    return (
        not hosts
        or not of_one_node
        or owner_of(name).partition("-")[2] in {part(host) for host in hosts}
    )


def folder(table: str, hour_us: int) -> str:
    """Folder of a table's hour, relative to the root; ``hour_us`` is any unix time
    within it, in microseconds.

    >>> folder("gpu", 1_800_000_000_000_000)
    'gpu/date=2027-01-15/hour=08'
    """
    return datetime.fromtimestamp(hour_us // 1_000_000, UTC).strftime(
        f"{table}/date=%Y-%m-%d/hour=%H"
    )


def day_folder(table: str, day_us: int) -> str:
    """Folder of a table's day, relative to the root; ``day_us`` is any unix time
    within it, in microseconds.

    >>> day_folder("gpu_1m", 1_800_000_000_000_000)
    'gpu_1m/date=2027-01-15'
    """
    return folder(table, day_us).rpartition("/")[0]


def write_whole(path: Path, write: Callable[[Path], object], *, durable: bool = True) -> None:
    """Let ``write`` fill a scratch file, make it durable, then give it its name.

    Nothing remains when it raises. Many that are not yet ``durable`` are made so by ``settle``.
    """
    make_folder(path.parent)
    scratch = path.with_name(f".{path.name}.new")
    try:
        write(scratch)
        if durable:
            _sync(scratch)
        scratch.replace(path)
        if durable:
            sync_folder(path.parent)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def settle(paths: Iterable[Path]) -> None:
    """Make files durable that were written one after the other, and their names: a file system
    that has written the first finds most of the others written too.
    """
    folders: dict[Path, None] = {}
    for path in paths:
        _sync(path)
        folders.setdefault(path.parent)
    for folder_of_it in folders:
        sync_folder(folder_of_it)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, durably: a file in a folder that a power cut
    takes back is gone with it.
    """
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(exist_ok=True)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make names in a folder durable: those that came, and those that went."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def files_below(folder: Path, *, all_of_them: bool = False) -> Iterator[Path]:
    """Everything below a folder that is no folder, in no order, without folders that may not be
    entered, which with ``all_of_them`` are a PermissionError. One that goes meanwhile is left out,
    at which ``Path.rglob`` fails. OSError where one cannot be read.
    """
    skipped = (FileNotFoundError,) if all_of_them else (FileNotFoundError, PermissionError)

    def failed(error: OSError) -> None:
        if not isinstance(error, skipped):
            raise error

    for place, _, names in os.walk(folder, onerror=failed):
        yield from (Path(place, name) for name in names)


def dates_of(root: Path, table: str) -> list[Path]:
    """Folders of the days that a table has, oldest first."""
    return sorted(path for path in (root / table).glob("date=*") if day_us(path) is not None)


def day_us(date: Path) -> int | None:
    """Unix time in microseconds at which a ``date=`` folder's day begins; None
    where the name is no date.

    >>> day_us(Path("gpu/date=2027-01-15")), day_us(Path("gpu/date=today"))
    (1799971200000000, None)
    """
    try:
        day = datetime.strptime(date.name, "date=%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        return None
    return round(day.timestamp()) * 1_000_000


def hour_of(path: Path) -> int | None:
    """Hour 0..23 of an ``hour=`` folder; None where the name is none."""
    digits = path.name.removeprefix("hour=")
    return int(digits) if len(digits) == 2 and digits.isdigit() and int(digits) < 24 else None
