"""What a store holds, of samples of its time: columns that have values, by node, and how far its
readings are apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from statistics import median

import polars as pl

from pipeline.catalog import KINDS
from pipeline.store.query.store import Store, Window

SAMPLES, SAMPLE = 24, timedelta(hours=1)
HEAD = ("time", "host", "device", "boot_id", "mono_ns", "seq")


@dataclass(slots=True)
class Coverage:
    """``columns`` of each host as ``kind.column``; ``every_s`` by kind: the usual time between two
    readings of a node, the median of nodes; ``sources`` of each host.
    """

    columns: dict[str, set[str]] = field(default_factory=dict)
    every_s: dict[str, float] = field(default_factory=dict)
    sources: dict[str, set[str]] = field(default_factory=dict)


def coverage(store: Store, begin: datetime, end: datetime) -> Coverage:
    """Of at most 24 hours, evenly spread over a time."""
    found = Coverage()
    windows = list(_windows(begin, end))
    for kind in KINDS:
        gaps: list[float] = []
        for window in windows:
            _columns(store, kind, window, found)
            gaps += _gaps(store, kind, window)
        if gaps:
            found.every_s[kind] = median(gaps)
    for window in windows:
        rows = store.collect(store.table("reads", window).select("host", "source").unique())
        for host, source in rows.iter_rows():
            found.sources.setdefault(host, set()).add(source)
    return found


def _windows(begin: datetime, end: datetime) -> Iterator[Window]:
    whole = max(int((end - begin) / SAMPLE), 1)
    for number in sorted({whole * i // SAMPLES for i in range(SAMPLES)}):
        since = (begin + number * SAMPLE).astimezone(UTC)
        yield Window(since, min(since + SAMPLE, end.astimezone(UTC)))


def _columns(store: Store, kind: str, window: Window, found: Coverage) -> None:
    counts = store.table(kind, window).group_by("host").agg(pl.all().exclude(HEAD).count())
    for row in store.collect(counts).iter_rows(named=True):
        own = found.columns.setdefault(row["host"], set())
        own.update(f"{kind}.{name}" for name, count in row.items() if name != "host" and count)


def _gaps(store: Store, kind: str, window: Window) -> list[float]:
    """The usual one of each host, seconds."""
    times = store.table(kind, window).select("host", "time").unique().sort("host", "time")
    apart = times.with_columns(pl.col("time").diff().over("host").alias("gap")).drop_nulls("gap")
    rows = store.collect(apart.group_by("host").agg(pl.col("gap").median()))
    return [row["gap"].total_seconds() for row in rows.iter_rows(named=True)]
