"""What the GPUs of a job did, minute by minute: from roll-ups where there are any, else from the
readings themselves.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

import polars as pl

from pipeline.store.query.store import Store, Window

MINUTE = timedelta(minutes=1)
COLUMNS = {
    "utilization": "gpu_utilization_percent",
    "tensor": "tensor_activity_percent",
    "power": "power_milliwatts",
    "limit": "power_limit_enforced_milliwatts",
}


class Minute(NamedTuple):
    """One minute: unix time of its begin in ns, GPUs that were read, and the means over them, None
    where the hardware does not measure it. Ratios are 0 to 1; ``power`` is of the limit.
    """

    begin_ns: int
    gpus: int
    utilization: float | None
    tensor: float | None
    power: float | None


def job_minutes(store: Store, window: Window, gpus: Collection[str]) -> list[Minute]:
    """Minutes of a window in which any of these GPUs was read, in order. Of a minute that lies in
    the window in part, the readings of that part.
    """
    if not gpus:  # a window without devices is of all
        return []
    own = Window(window.since, window.until, tuple(sorted(gpus)))
    first, over = _up(own.since), _down(own.until)
    done = store.collect(
        _by_device(store.table("gpu_1m", replace(own, since=first, until=over)), "_mean")
    )
    last = done["minute"].max()  # days are rolled up in their order
    rest = [own]
    if isinstance(last, datetime):
        rest = [replace(own, since=last + MINUTE)]
        if first is not None and own.since is not None and own.since < first:
            rest.append(replace(own, until=first))
    fresh = [store.collect(_by_device(store.table("gpu", each), "")) for each in rest]
    by_minute = (
        pl.concat([done, *fresh])
        .group_by("minute")
        .agg(
            pl.col("device").n_unique().alias("gpus"),
            (pl.col("utilization").mean() / 100).alias("utilization"),
            (pl.col("tensor").mean() / 100).alias("tensor"),
            (pl.col("power") / pl.col("limit")).mean().alias("power"),
        )
        .sort("minute")
    )
    return [
        Minute(round(minute.timestamp()) * 1_000_000_000, *rest)
        for minute, *rest in by_minute.rows()
    ]


def _down(time: datetime | None) -> datetime | None:
    return time and time.replace(second=0, microsecond=0)


def _up(time: datetime | None) -> datetime | None:
    whole = _down(time)
    return whole + MINUTE if whole is not None and whole != time else whole


def _by_device(rows: pl.LazyFrame, end: str) -> pl.LazyFrame:
    known = rows.collect_schema().names()
    columns = [
        (
            pl.col(f"{column}{end}").cast(pl.Float64).mean()
            if f"{column}{end}" in known
            else pl.lit(None, pl.Float64)
        ).alias(name)
        for name, column in COLUMNS.items()
    ]
    return rows.group_by("device", pl.col("time").dt.truncate("1m").alias("minute")).agg(columns)
