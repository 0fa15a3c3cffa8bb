"""Retention: what is older than its table is kept goes; then, over the disk budget, the oldest
of what is least valuable.

No clock can empty the store. Age counts from the newest data where the clock is ahead of it, and
one day of what is too old goes at once: the next one when there are six more hours of data
(``Pace``), or when an operator confirms. The budget is hard and waits for nobody. A file of a newer
version is never removed.

First what is in quarantine, then measurements as they were read (roll-ups of them stay), then
roll-ups, last what happened and what was found. Files that an object store does not have yet go
after all that it has. The write-ahead log is never touched: it is bounded by itself.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from pipeline.catalog import KINDS
from pipeline.store.files.layout import (
    DAY_US,
    HOUR_US,
    dates_of,
    day_us,
    files_below,
    hour_of,
    is_ours,
)
from pipeline.store.files.parquet import is_newer
from pipeline.store.files.schema import BUCKETS_S, TABLES
from pipeline.store.keep.generations import Pass
from pipeline.store.keep.pace import Pace
from pipeline.store.keep.policy import Policy

DEFAULT_BYTES, DEFAULT_SHARE = 20 << 30, 0.10  # of the file system's size, whichever is less
HEADROOM = 0.05  # of the budget: what is written until the next run, and while a day is compacted
BLOCK = 4096  # files take whole blocks

RAW = (*KINDS, "reads")
ROLLUPS = {bucket: tuple(f"{kind}_{bucket}" for kind in KINDS) for bucket in BUCKETS_S}
WORDS = tuple(table for table in TABLES if table not in RAW)
QUARANTINE = "quarantine"
OTHERS = ("wal", "outbox", ".compact")  # what else counts as used


@dataclass(frozen=True, slots=True)
class Sealed:
    """One file that may be given up.

    ``tier`` 0 is the least valuable; ``time_us``: when its hour or day of ``span_us`` began.
    """

    path: Path
    table: str
    tier: int
    time_us: int
    size: int
    changed_us: int
    span_us: int = 0


@dataclass(slots=True)
class Removed:
    """Bytes given up by table and reason, and the files; ``held_back``: bytes by table that are too
    old and were kept, as more than a day's worth would have gone at once.
    """

    sizes: dict[str, dict[str, int]] = field(default_factory=dict)
    paths: list[Path] = field(default_factory=list)
    held_back: dict[str, int] = field(default_factory=dict)

    def add(self, file: Sealed, reason: str) -> None:
        """One more."""
        reasons = self.sizes.setdefault(file.table, {})
        reasons[reason] = reasons.get(reason, 0) + file.size
        self.paths.append(file.path)


def retain(
    over: Pass,
    policy: Policy,
    pending: Callable[[Path], bool] = lambda _: False,
    *,
    confirmed: bool = False,
) -> Removed:
    """Remove what the policy no longer keeps; ``pending`` is true for files that an object store
    does not have yet, ``confirmed`` that an operator wants all that is too old gone at once.

    OSError where the disk refuses.
    """
    removed = Removed()
    files = list(sealed(over.root))
    now_us = min(over.now_us, newest_us(files, over.now_us))
    old = [file for file in files if _too_old(file, policy, now_us)]
    _expire(over, removed, old, now_us, confirmed=confirmed)
    gone = set(removed.paths)
    kept = [file for file in files if file.path not in gone]
    _shrink(over, removed, kept, budget(over.root, policy), pending)
    for folder in {path.parent for path in removed.paths}:
        _remove_empty(folder, over.root)
    return removed


def newest_us(files: Iterable[Sealed], now_us: int) -> int:
    """End of the newest hour or day of data; ``now_us`` where there is none."""
    ends = [f.time_us + (f.span_us or 0) for f in files if f.tier]
    return max(ends, default=now_us)


def _expire(
    over: Pass, removed: Removed, old: Iterable[Sealed], now_us: int, *, confirmed: bool
) -> None:
    """Remove what is too old: all of it, or the oldest day of each tier if it is its turn."""
    mine = [file for file in old if not (file.tier and is_newer(file.path))]
    days: dict[int, int] = {}
    for file in mine:
        if file.tier:
            days[file.tier] = min(_day(file), days.get(file.tier, _day(file)))
    due = {} if confirmed else Pace(over.root).take(now_us, days)
    for file in mine:
        if confirmed or not file.tier or due.get(file.tier) == _day(file):
            _remove(over, removed, file, "age")
        else:
            size = removed.held_back.get(file.table, 0)
            removed.held_back[file.table] = size + file.size


def _day(file: Sealed) -> int:
    return file.time_us // DAY_US


def budget(root: Path, policy: Policy) -> int:
    """Disk budget of the store."""
    if policy.max_bytes:
        return policy.max_bytes
    disk = os.statvfs(root)
    return min(DEFAULT_BYTES, round(disk.f_blocks * disk.f_frsize * DEFAULT_SHARE))


def sealed(root: Path) -> Iterator[Sealed]:
    """All files that may be given up."""
    for tier, tables in enumerate((RAW, *ROLLUPS.values(), WORDS), start=1):
        for table in tables:
            for date in dates_of(root, table):
                for path in filter(is_ours, date.rglob("*.parquet")):
                    hour = hour_of(path.parent) if path.parent != date else None
                    begin = (day_us(date) or 0) + (hour or 0) * HOUR_US
                    yield from _sealed(
                        path, table, tier, (begin, DAY_US if hour is None else HOUR_US)
                    )
    for path in (root / QUARANTINE).rglob("*"):
        yield from _sealed(path, QUARANTINE, 0, None)


def sizes(root: Path) -> dict[str, int]:
    """Bytes used by table, and by what else lies in the store; a file
    with two names counts once.
    """
    used: dict[str, int] = defaultdict(int)
    known: set[int] = set()
    names = [
        *RAW,
        *(table for tables in ROLLUPS.values() for table in tables),
        *WORDS,
        QUARANTINE,
        *OTHERS,
    ]
    for name in names:
        for path in files_below(root / name):
            with suppress(FileNotFoundError):  # sealed or sent meanwhile
                stat = path.lstat()
                if path.is_file() and stat.st_ino not in known:
                    known.add(stat.st_ino)
                    used[name] += _blocks(stat.st_size)
    return dict(used)


def _sealed(path: Path, table: str, tier: int, times: tuple[int, int] | None) -> Iterator[Sealed]:
    """The file, if it is one; ``times``: begin and length of its hour or day."""
    with suppress(FileNotFoundError):
        stat = path.lstat()
        # a move into quarantine changes ctime only
        changed = (stat.st_mtime_ns if times is not None else stat.st_ctime_ns) // 1000
        begin, span = (changed, 0) if times is None else times
        if path.is_file():
            yield Sealed(path, table, tier, begin, _blocks(stat.st_size), changed, span)


def _blocks(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _too_old(file: Sealed, policy: Policy, now_us: int) -> bool:
    """Age counts from the end of the file's day, or its own time if that is later: what was read in
    1970 by the clock is not lost at once. A time of its own that is yet to come is of a clock that
    was wrong, and does not count.
    """
    changed_us = file.changed_us if file.changed_us <= now_us else 0
    kept_s = (policy.raw_s, policy.raw_s, policy.minute_s, policy.quarter_s, policy.events_s)[
        file.tier
    ]
    return bool(kept_s) and max(
        file.time_us // DAY_US * DAY_US + DAY_US, changed_us
    ) < now_us - round(kept_s * 1e6)


def _shrink(
    over: Pass, removed: Removed, kept: list[Sealed], most: int, pending: Callable[[Path], bool]
) -> None:
    """Give up whole hours or days of a tier until the store fits its budget."""
    used = sum(sizes(over.root).values())
    if used <= most:
        return

    def worth(file: Sealed) -> tuple[bool, int, int]:
        return file.tier > 0 and pending(file.path), file.tier, file.time_us

    for (waits, *_), files in groupby(sorted(kept, key=worth), key=worth):
        if used <= most * (1 - HEADROOM):
            return
        for file in files:
            # what the outbox has a link to stays until it is sent: it would free nothing
            if file.tier and (file.path.stat().st_nlink > 1 or is_newer(file.path)):
                continue
            _remove(over, removed, file, "budget_not_uploaded" if waits else "budget")
            used -= file.size


def _remove(over: Pass, removed: Removed, file: Sealed, reason: str) -> None:
    over.step(f"give up {file.path}")
    file.path.unlink(missing_ok=True)
    removed.add(file, reason)


def _remove_empty(folder: Path, root: Path) -> None:
    """The folder and those above it, as far as they are empty."""
    while folder != root:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent
