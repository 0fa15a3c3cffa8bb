"""Where files lie: ``<table>/date=YYYY-MM-DD/hour=HH/<cluster>-<node>-<boot>-<seq>.parquet``; written whole or not at all."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

HOUR_US = 3_600_000_000
_UNSAFE = re.compile(r"[^A-Za-z0-9_.]+")


def part(name: str) -> str:
    """A name as it may stand in a file name: no separators, no dashes, never empty, bounded.

    >>> part("gpu-17.rack/4"), part("")
    ('gpu_17.rack_4', 'none')
    """
    return _UNSAFE.sub("_", name)[:64].strip(".") or "none"


@dataclass(frozen=True, slots=True)
class FileName:
    """Identity of one sealed file: the same segment gives the same names, so sealing twice changes nothing."""

    cluster: str
    host: str
    boot_id: str
    seq: int

    def __str__(self) -> str:
        return f"{part(self.cluster)}-{part(self.host)}-{part(self.boot_id)}-{self.seq:016d}.parquet"


def folder(table: str, hour_us: int) -> str:
    """Folder of a table's hour, relative to the root; ``hour_us`` is any unix time within it, in microseconds.

    >>> folder("gpu", 1_800_000_000_000_000)
    'gpu/date=2027-01-15/hour=08'
    """
    return datetime.fromtimestamp(hour_us // 1_000_000, UTC).strftime(f"{table}/date=%Y-%m-%d/hour=%H")


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a scratch file, make it durable, then give it its name. Nothing remains when it raises."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.new")
    try:
        write(scratch)
        fd = os.open(scratch, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        scratch.replace(path)
        sync_folder(path.parent)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def sync_folder(path: Path) -> None:
    """Make a rename durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def hours_of(root: Path, table: str = "reads") -> list[int]:
    """Hours that a table has files of, oldest first, as unix time in microseconds."""
    found = (path for path in root.glob(f"{table}/date=*/hour=*") if any(path.glob("*.parquet")))
    return sorted(_hour_us(path) for path in found)


def _hour_us(path: Path) -> int:
    date, hour = path.parent.name.removeprefix("date="), path.name.removeprefix("hour=")
    return round(datetime.fromisoformat(f"{date}T{hour}:00:00+00:00").timestamp() * 1_000_000)
