"""How busy each GPU was, minute by minute: from roll-ups where there are some, else from rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipeline.gpu_state import NO_FAULT
from pipeline.store.query.store import Store, Window

BUCKET_MS = 60_000
NO_ANSWER = -1.0  # of a GPU that is there and cannot be read


@dataclass(frozen=True, slots=True)
class Busy:
    """One node: a row per minute from ``begin_ms`` (unix) on, a column per GPU; percent, NaN where
    nothing was read or a GPU that answers has no utilisation (in MIG mode, or given to a virtual
    machine), ``NO_ANSWER`` where the GPU gave no answer.

    ``restarts`` are gaps, in milliseconds, after which the node had another boot.
    """

    host: str
    gpus: tuple[str, ...]
    begin_ms: int
    percent: NDArray[np.float32]
    restarts: tuple[tuple[int, int], ...]


def busy(store: Store, since: datetime, until: datetime) -> Iterator[Busy]:
    """Node by node. Times have a zone and are whole minutes."""
    rows = _rows(store, since, until)
    begin_ms = _ms(since)
    count = (_ms(until) - begin_ms) // BUCKET_MS
    for (host,), part in rows.sort("host", "time").group_by("host", maintain_order=True):
        gpus = tuple(sorted(part["device"].unique().to_list()))
        column = {gpu: number for number, gpu in enumerate(gpus)}
        percent = np.full((count, len(gpus)), np.nan, np.float32)
        minutes = (part["time"].dt.epoch("ms").to_numpy() - begin_ms) // BUCKET_MS
        columns = [column[gpu] for gpu in part["device"].to_list()]
        answers = part["state"].is_in(list(NO_FAULT)).fill_null(value=False)
        without = pl.select(pl.when(answers).then(float("nan")).otherwise(NO_ANSWER)).to_series()
        percent[minutes, columns] = part["percent"].fill_null(without).to_numpy()
        yield Busy(str(host), gpus, begin_ms, percent, tuple(_restarts(part)))


def _rows(store: Store, since: datetime, until: datetime) -> pl.DataFrame:
    """Columns time (the minute), host, device, boot_id, percent, state: each minute once."""
    window = Window(since, until)
    columns = ("time", "host", "device", "boot_id")
    rolled = store.collect(
        store.table("gpu_1m", window).select(
            *columns,
            pl.col("gpu_utilization_percent_mean").alias("percent"),
            pl.col("state_min").alias("state"),
        )
    )
    last = rolled.group_by("host").agg(pl.col("time").max().alias("last"))
    begin = since if rolled.is_empty() else min(last["last"].to_list())
    raw = store.collect(
        store.table("gpu", Window(begin, until))
        .select(
            *columns, pl.col("gpu_utilization_percent").cast(pl.Float64).alias("percent"), "state"
        )
        .with_columns(pl.col("time").dt.truncate("1m"))
        .group_by("time", "host", "device")
        .agg(pl.col("boot_id").last(), pl.col("percent").mean(), pl.col("state").min())
        .select(*columns, "percent", "state")
    )
    newer = raw.join(last, on="host", how="left").filter(
        pl.col("last").is_null() | (pl.col("time") > pl.col("last"))
    )
    return pl.concat([rolled, newer.drop("last")], how="vertical_relaxed").unique(
        ["time", "host", "device"]
    )


def _restarts(part: pl.DataFrame) -> Iterator[tuple[int, int]]:
    seen = part.unique("time", keep="last").sort("time")
    times, boots = seen["time"].to_list(), seen["boot_id"].to_list()
    minute = timedelta(milliseconds=BUCKET_MS)
    for before, after, boot, other in zip(times, times[1:], boots, boots[1:], strict=False):
        if boot != other and after - before > minute:
            yield _ms(before + minute), _ms(after)


def _ms(time: datetime) -> int:
    return round(time.astimezone(UTC).timestamp() * 1000)
