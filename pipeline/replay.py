"""Stored files back into Observations, bit for bit what the engine saw: the source of replay."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.store.files.history import Seen, observations
from pipeline.store.files.layout import HOUR_US
from pipeline.store.files.live import TRIES, hours_of, live_files
from pipeline.store.files.parquet import ForeignError, read
from pipeline.store.files.schema import TABLES

log = logging.getLogger("tocsin.replay")


def replay(
    root: Path, *, since_us: int | None = None, until_us: int | None = None
) -> Iterator[Seen]:
    """Every observation below ``root`` with the findings that were said then; an hour is
    held in memory at a time.

    Within an hour the order is host, boot, sequence number. ``since_us`` and ``until_us`` bound the
    start of the reads, unix time in microseconds. A file that cannot be read is named in the log
    and left out; frames whose rows are gone (given up, quarantined) are left out of their
    observation, which says so in ``unread``.
    """
    for hour_us in hours_of(root):
        if (since_us is not None and hour_us + HOUR_US <= since_us) or (
            until_us is not None and hour_us >= until_us
        ):
            continue
        for seen in observations(_tables(root, hour_us)):
            at = seen[0].time_ns // 1000
            if (since_us is None or at >= since_us) and (until_us is None or at < until_us):
                yield seen


def _tables(root: Path, hour_us: int) -> dict[str, pa.Table]:
    """What the files hold of the reads of an hour, by table."""
    time = pc.field("time")
    reads = _rows(root, "reads", hour_us, (time >= _at(hour_us)) & (time < _at(hour_us + HOUR_US)))
    if reads is None:
        return {}
    # A compacted file holds a day: what belongs to this hour's reads lies between their numbers,
    # and is matched by boot and number later.
    first, last = (bound.as_py() for bound in pc.min_max(reads["seq"]).values())
    found = {"reads": reads}
    for table in TABLES:
        if table == "reads":
            continue
        # Attributes hold until they change: those of an hour may have been
        # written in an earlier one.
        where = (
            None if table == "devices" else (pc.field("seq") >= first) & (pc.field("seq") <= last)
        )
        rows = _rows(root, table, hour_us, where)
        if rows is not None:
            found[table] = rows
    return found


def _rows(root: Path, table: str, hour_us: int, where: pc.Expression | None) -> pa.Table | None:
    """Rows of an hour's files, ``where`` choosing among those of a whole day.

    Looks again when files are replaced under its hands.
    """
    for _ in range(TRIES):
        try:
            return _read(live_files(root, table, [hour_us]), table, where)
        except FileNotFoundError:
            continue
    raise FileNotFoundError(f"{root / table}: its files keep changing")


def _read(paths: list[Path], table: str, where: pc.Expression | None) -> pa.Table | None:
    parts = []
    for path in paths:
        try:
            parts.append(read(path, table, where if path.parent.name.startswith("date=") else None))
        except ForeignError as error:
            log.warning("skipped: %s", error)
        except PermissionError as error:
            log.warning("skipped: %s: %s", path, error.strerror)
    parts = [part for part in parts if len(part)]
    return pa.concat_tables(parts).unify_dictionaries() if parts else None


def _at(time_us: int) -> pa.Scalar:
    return pa.scalar(time_us, pa.timestamp("us", tz="UTC"))
