"""Retention: what is older than its table is kept goes; then, over the disk budget, the oldest
of what is least valuable.

First what is in quarantine, then measurements as they were read (roll-ups of them stay), then
roll-ups, last what happened and what was found. Files that an object store does not have yet go
after all that it has. The write-ahead log is never touched: it is bounded by itself.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from pipeline.catalog import KINDS
from pipeline.store.files.layout import DAY_US, HOUR_US, dates_of, day_us, hour_of
from pipeline.store.files.schema import BUCKETS_S, TABLES
from pipeline.store.keep.generations import Pass
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

    ``tier`` 0 is the least valuable; ``time_us``: when its first hour or day began.
    """

    path: Path
    table: str
    tier: int
    time_us: int
    size: int
    changed_us: int


@dataclass(slots=True)
class Removed:
    """Bytes given up by table and reason, and the files."""

    sizes: dict[str, dict[str, int]] = field(default_factory=dict)
    paths: list[Path] = field(default_factory=list)

    def add(self, file: Sealed, reason: str) -> None:
        """One more."""
        reasons = self.sizes.setdefault(file.table, {})
        reasons[reason] = reasons.get(reason, 0) + file.size
        self.paths.append(file.path)


def retain(
    over: Pass, policy: Policy, pending: Callable[[Path], bool] = lambda _: False
) -> Removed:
    """Remove what the policy no longer keeps; ``pending`` is true for files that an object store
    does not have yet.

    OSError where the disk refuses.
    """
    removed = Removed()
    kept: list[Sealed] = []
    for file in sealed(over.root):
        if _too_old(file, policy, over.now_us):
            _remove(over, removed, file, "age")
        else:
            kept.append(file)
    _shrink(over, removed, kept, budget(over.root, policy), pending)
    for folder in {path.parent for path in removed.paths}:
        _remove_empty(folder, over.root)
    return removed


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
                for path in date.rglob("*.parquet"):
                    hour = hour_of(path.parent) if path.parent != date else 0
                    yield from _sealed(
                        path, table, tier, (day_us(date) or 0) + (hour or 0) * HOUR_US
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
        for path in (root / name).rglob("*"):
            with suppress(FileNotFoundError):
                stat = path.lstat()
                if path.is_file() and stat.st_ino not in known:
                    known.add(stat.st_ino)
                    used[name] += _blocks(stat.st_size)
    return dict(used)


def _sealed(path: Path, table: str, tier: int, time_us: int | None) -> Iterator[Sealed]:
    with suppress(FileNotFoundError):
        stat = path.stat()
        changed = (
            stat.st_mtime_ns if time_us is not None else stat.st_ctime_ns
        ) // 1000  # a move into quarantine changes ctime only
        if path.is_file():
            yield Sealed(
                path,
                table,
                tier,
                changed if time_us is None else time_us,
                _blocks(stat.st_size),
                changed,
            )


def _blocks(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _too_old(file: Sealed, policy: Policy, now_us: int) -> bool:
    """Age counts from the end of the file's day, or its own time if that is later: what was read in
    1970 by the clock is not lost at once.
    """
    kept_s = (policy.raw_s, policy.raw_s, policy.minute_s, policy.quarter_s, policy.events_s)[
        file.tier
    ]
    return bool(kept_s) and max(
        file.time_us // DAY_US * DAY_US + DAY_US, file.changed_us
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
            shared = file.path.stat().st_nlink > 1  # its bytes stay in the outbox
            _remove(over, removed, file, "budget_not_uploaded" if waits else "budget")
            used -= 0 if shared else file.size


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
