"""Questions about what happened: XIDs, each counted once, and everything by device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import orjson
import polars as pl

from pipeline.frame import Device
from pipeline.observation import Event
from pipeline.store.query.canned.question import named, names, step_for
from pipeline.store.query.increase import WHO
from pipeline.store.query.plot import Panel
from pipeline.store.query.store import Store, Window
from pipeline.xid.once import Once
from pipeline.xid.table import xid_entry


def xids(store: Store, window: Window) -> pl.DataFrame:
    """Per GPU and code: how often, first and last time, and what it means.

    What was reported or read twice counts once.
    """
    found = pl.DataFrame(
        [
            {
                "host": e.device.host,
                "device": e.device.id,
                "code": int(e.attributes["code"]),
                "count": n,
                "time": _us(e),
                "last": _last(e),
            }
            for e, n in _once(store, window)
        ],
        schema={
            **dict.fromkeys(WHO, pl.String),
            "code": pl.Int64,
            "count": pl.Int64,
            "time": pl.Int64,
            "last": pl.Int64,
        },
    )
    moment = pl.Datetime("us", "UTC")
    rows = found.group_by(*WHO, "code").agg(
        pl.col("count").sum(),
        pl.col("time").min().cast(moment).alias("first"),
        pl.col("last").max().cast(moment),
    )
    entries = {code: xid_entry(code) for code in rows["code"].unique()}
    rows = rows.with_columns(
        pl.Series("severity", [entries[code].level for code in rows["code"]], pl.String),
        pl.Series("meaning", [entries[code].description for code in rows["code"]], pl.String),
    )
    return named(rows, names(store, window)).sort("host", "device", "code")


def draw_xids(store: Store, window: Window) -> Sequence[Panel]:
    """XIDs of each code over time."""
    events = [
        (_us(event), f"XID {event.attributes['code']}", n) for event, n in _once(store, window)
    ]
    rows = pl.DataFrame(
        events, schema={"time": pl.Int64, "name": pl.String, "value": pl.Float64}, orient="row"
    )
    return [
        Panel(
            "XIDs",
            "per bucket",
            _bucketed(rows.with_columns(pl.col("time").cast(pl.Datetime("us", "UTC")))),
            dots=True,
        )
    ]


def health(store: Store, window: Window) -> pl.DataFrame:
    """Per device: every kind of event, and every detector that found something, with
    counts, first and last time.
    """
    rows = pl.concat([_events(store, window), _findings(store, window)])
    return named(rows, names(store, window)).sort("host", "device", "what")


def draw_health(store: Store, window: Window) -> Sequence[Panel]:
    """Events of each kind over time."""
    rows = store.collect(
        store.table("events", window).select(
            "time", pl.col("kind").alias("name"), pl.lit(1.0).alias("value")
        )
    )
    return [Panel("Events", "per bucket", _bucketed(rows), dots=True)]


def _events(store: Store, window: Window) -> pl.DataFrame:
    count = pl.col("attributes").str.json_path_match("$.count").cast(pl.Int64).fill_null(1)
    asked = store.table("events", window).group_by(*WHO, pl.col("kind").alias("what"))
    return _counted(store, asked, count.sum(), pl.lit("", pl.String))


def _findings(store: Store, window: Window) -> pl.DataFrame:
    asked = store.table("findings", window).filter(pl.col("phase") == "onset")
    grouped = asked.group_by(
        *WHO, (pl.lit("finding: ") + pl.col("detector")).alias("what"), "severity"
    )
    return _counted(store, grouped, pl.len().cast(pl.Int64), None)


def _counted(store: Store, grouped: Any, count: pl.Expr, severity: pl.Expr | None) -> pl.DataFrame:
    rows = store.collect(
        grouped.agg(
            count.alias("count"),
            pl.col("time").min().alias("first"),
            pl.col("time").max().alias("last"),
        )
    )
    rows = rows if severity is None else rows.with_columns(severity.alias("severity"))
    return rows.select(*WHO, "what", "severity", "count", "first", "last")


def _once(store: Store, window: Window) -> Iterator[tuple[Event, int]]:
    """XIDs in the order in which they were read, each with how many occurrences it adds."""
    columns = (
        "time",
        "host",
        "device",
        "boot_id",
        "mono_ns",
        "seq",
        "n",
        "device_kind",
        "attributes",
    )
    rows = store.collect(
        store.table("events", window).filter(pl.col("kind") == "xid").select(columns)
    )
    boots = (
        rows.group_by("boot_id")
        .agg(pl.col("time").min().alias("boot"))
        .with_columns(pl.col("boot").rank("ordinal"))
    )
    once = Once()
    for row in (
        rows.join(boots, on="boot_id", how="left").sort("boot", "seq", "n").iter_rows(named=True)
    ):
        event = _event(row)
        if (new := once.new(event, row["boot_id"])) > 0:
            yield event, new


def _event(row: Mapping[str, Any]) -> Event:
    time_ns = round(row["time"].timestamp() * 1e6) * 1000
    return Event(
        time_ns,
        row["mono_ns"],
        Device(row["host"], row["device_kind"], row["device"]),
        "xid",
        orjson.loads(row["attributes"]),
    )


def _us(event: Event) -> int:
    return event.time_ns // 1000


def _last(event: Event) -> int:
    return int(event.attributes.get("last_time_ns", event.time_ns)) // 1000


def _bucketed(rows: pl.DataFrame) -> pl.DataFrame:
    """Sums per bucket of time and line."""
    if rows.is_empty():
        return rows
    times = rows["time"].dt.timestamp("us").to_numpy()
    # dots: a quarter of a line's points
    step = timedelta(seconds=step_for(4 * float(np.ptp(times)) / 1e6))
    return (
        rows.group_by(pl.col("time").dt.truncate(step), "name")
        .agg(pl.col("value").sum())
        .sort("name", "time")
    )
