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
    """Minutes of a window in which any of these GPUs was read, in order."""
    own = Window(window.since, window.until, tuple(sorted(gpus)))
    done = store.collect(_by_device(store.table("gpu_1m", own), "_mean"))
    last = done["minute"].max()  # days are rolled up in their order
    since = last + timedelta(minutes=1) if isinstance(last, datetime) else own.since
    fresh = store.collect(_by_device(store.table("gpu", replace(own, since=since)), ""))
    by_minute = (
        pl.concat([done, fresh])
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
