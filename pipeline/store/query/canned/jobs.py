"""Whose GPUs they were: jobs and pods with the devices they held, from when until when."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from pipeline.catalog import facts_of
from pipeline.catalog.device_job import KIND
from pipeline.store.query.canned.question import names
from pipeline.store.query.plot import Panel
from pipeline.store.query.store import Store, Window

_ALWAYS = ("index", "uuid", "scheduler", "job")
_FACTS = tuple(fact.name for fact in facts_of(KIND))


def jobs(store: Store, window: Window) -> pl.DataFrame:
    """Per job or pod and device: its first and last read in the window, the most processes it had
    there, and its facts.

    Facts of the catalogue that no row has get no column. Devices of the window are GPUs: the jobs
    that had them are meant.
    """
    spans = store.collect(
        _rows(store, window)
        .group_by("host", "device")
        .agg(
            pl.col("time").min().alias("from"),
            pl.col("time").max().alias("until"),
            pl.col("processes").max(),
        )
    )
    known = names(store, Window(window.since, window.until)).facts
    facts = [known.get(pair, {}) for pair in spans.select("host", "device").rows()]
    present = [name for name in _FACTS if name in _ALWAYS or any(name in f for f in facts)]
    whole = spans.with_columns(
        [pl.Series(name, [f.get(name) for f in facts], pl.String) for name in present]
    )
    if window.devices:
        whole = whole.filter(pl.col("uuid").is_in(list(window.devices)))
    return whole.select("host", *present, "processes", "from", "until").sort(
        "from", "host", pl.col("index").str.len_chars(), "index"
    )


def draw_jobs(store: Store, window: Window) -> Sequence[Panel]:
    """GPUs and instances that a job or pod had, minute by minute."""
    rows = _rows(store, window).group_by(
        pl.col("time").dt.truncate("1m"), pl.col("host").alias("name")
    )
    return [
        Panel(
            "Holders of devices",
            "",
            store.collect(rows.agg(pl.col("device").n_unique().cast(pl.Float64).alias("value"))),
        )
    ]


def _rows(store: Store, window: Window) -> pl.LazyFrame:
    return store.table(KIND, Window(window.since, window.until))
