"""Stored files back into Observations, bit for bit what the engine saw: the source of replay."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from pipeline.store.history import Seen, observations
from pipeline.store.layout import HOUR_US, folder, hours_of
from pipeline.store.parquet import ForeignError, read
from pipeline.store.schema import TABLES

log = logging.getLogger("tocsin.replay")


def replay(root: Path, *, since_us: int | None = None, until_us: int | None = None) -> Iterator[Seen]:
    """Every observation below ``root`` with the findings that were said then; an hour is held in memory at a time.

    Within an hour the order is host, boot, sequence number. ``since_us`` and ``until_us`` bound the start of the reads, unix time in
    microseconds. A file that cannot be read is named in the log and left out.
    """
    for hour_us in hours_of(root):
        if (since_us is not None and hour_us + HOUR_US <= since_us) or (until_us is not None and hour_us >= until_us):
            continue
        for seen in observations(_tables(root, hour_us)):
            at = seen[0].time_ns // 1000
            if (since_us is None or at >= since_us) and (until_us is None or at < until_us):
                yield seen


def _tables(root: Path, hour_us: int) -> dict[str, pa.Table]:
    """What the files of an hour hold, by table."""
    found: dict[str, pa.Table] = {}
    for table in TABLES:
        parts = []
        for path in sorted((root / folder(table, hour_us)).glob("*.parquet")):
            try:
                parts.append(read(path, table))
            except ForeignError as error:
                log.warning("left out: %s", error)
        if parts:
            found[table] = pa.concat_tables(parts).unify_dictionaries()
    return found
