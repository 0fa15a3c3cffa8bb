"""Quarters of an hour of all GPUs, from roll-ups, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import orjson
import polars as pl
from numpy.typing import NDArray

from pipeline.store.query.store import Store, Window

TABLE = "gpu_15m"
BUCKET = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class GpuQuarters:
    """``values``: (bucket, GPU) by field, NaN where there is nothing; means of gauges, increases of
    counters. The first bucket begins at ``since``. ``devices``: id, host and model of each GPU.
    """

    since: datetime
    devices: tuple[tuple[str, str, str], ...]
    values: dict[str, NDArray[np.float64]]


def gpu_quarters(
    store: Store, since: datetime, until: datetime, gauges: Sequence[str], counters: Sequence[str]
) -> GpuQuarters:
    """Of all GPUs that were read from ``since``, a midnight, up to ``until``; of a GPU that was in
    two hosts, the last.
    """
    columns = [pl.col(f"{name}_mean").cast(pl.Float64).alias(name) for name in gauges]
    columns += [pl.col(f"{name}_increase").cast(pl.Float64).alias(name) for name in counters]
    wanted = store.table(TABLE, Window(since, until)).select("time", "host", "device", *columns)
    rows = store.collect(wanted).sort("time")
    models = _models(store)
    host_of = dict(rows.select("device", "host").iter_rows())
    devices = tuple(
        (device, host, models.get(device, ""))
        for device, host in sorted(host_of.items(), key=lambda one: (one[1], one[0]))
    )
    place = {device: number for number, (device, *_) in enumerate(devices)}
    row = ((rows["time"] - since).dt.total_seconds() // BUCKET.seconds).to_numpy()
    column = np.array([place[device] for device in rows["device"].to_list()], np.intp)
    shape = (round((until - since) / BUCKET), len(devices))
    values = {}
    for name in (*gauges, *counters):
        made = np.full(shape, np.nan)
        if len(rows):
            made[row, column] = rows[name].fill_null(np.nan).to_numpy()
        values[name] = made
    return GpuQuarters(since, devices, values)


def _models(store: Store) -> dict[str, str]:
    """Model of each GPU by its id, as it was last reported."""
    wanted = store.table("devices").filter(pl.col("kind") == "gpu")
    rows = store.collect(wanted.select("time", "device", "attributes")).sort("time")
    return {
        device: str(orjson.loads(attributes).get("name", ""))
        for device, attributes in rows.select("device", "attributes").iter_rows()
    }
