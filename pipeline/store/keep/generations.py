"""Generations of a day's compacted files: the next name, what a file replaces, and the removal of
what was replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import orjson

from pipeline.store.files.layout import HOUR_US, DayName, hour_of, is_ours, sync_folder
from pipeline.store.files.live import HOURS, REPLACES, compacted, replaced_by

# a scratch file without a write for this long is of a process that was killed
LEFTOVER_US = HOUR_US


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass over a store: its root, its unix time, and a callback before every step that changes
    the disk.
    """

    root: Path
    now_us: int
    step: Callable[[str], object] = lambda _: None


def next_name(date: Path, owner: str) -> str:
    """Name of the next generation of an owner's compacted file in a day's folder."""
    names = [DayName.of(path.name) for path in date.glob("*.parquet")]
    latest = max((name.generation for name in names if name and name.owner == owner), default=0)
    return str(DayName(owner, latest + 1))


def about(date: Path, sources: Iterable[Path]) -> dict[str, str]:
    """Metadata about these sources for the footer of the file made of them.

    Sources of sources are named too: a file that comes back (a segment sealed a second time after a
    crash) is still replaced.
    """
    replaces: set[str] = set()
    hours: set[int] = set()
    for path in sources:
        replaces.add(path.relative_to(date).as_posix())
        if path.parent == date:
            replaces |= compacted(path).replaces
            hours |= compacted(path).hours
        elif (hour := hour_of(path.parent)) is not None:
            hours.add(hour)
    return {
        REPLACES: orjson.dumps(sorted(replaces)).decode(),
        HOURS: orjson.dumps(sorted(hours)).decode(),
    }


def sweep(over: Pass, date: Path) -> int:
    """Remove what a day's compacted files replace, and what killed writers left; the number of
    files removed that were replaced.
    """
    removed = 0
    for path in _replaced(date):
        over.step(f"remove {path}")
        path.unlink(missing_ok=True)
        removed += 1
    for path in date.rglob(".*.new"):
        with suppress(FileNotFoundError):  # its writer runs, and has renamed it
            if path.stat().st_mtime_ns // 1000 < over.now_us - LEFTOVER_US:
                path.unlink()
    for folder in date.glob("hour=*"):
        with suppress(OSError):  # not empty
            folder.rmdir()
    if removed:
        sync_folder(date)
    return removed


def _replaced(date: Path) -> Sequence[Path]:
    days = sorted(filter(is_ours, date.glob("*.parquet")))
    hourly = sorted(filter(is_ours, date.glob("hour=*/*.parquet")))
    if not days or len(days) + len(hourly) == 1:
        return []
    replaced = replaced_by(days)
    return [path for path in hourly + days if path.relative_to(date).as_posix() in replaced]
