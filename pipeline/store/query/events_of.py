"""Stored events of some kinds, as events again."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import orjson
import polars as pl

from pipeline.frame import Device
from pipeline.observation import Event
from pipeline.store.query.store import Store, Window


def events_of(
    store: Store, window: Window, kinds: Collection[str], hosts: Collection[str] = ()
) -> Iterator[Event]:
    """In the order of time, then as they were read; of all hosts unless some are named."""
    return (event for event, _ in with_boots(store, window, kinds, hosts))


def with_boots(
    store: Store, window: Window, kinds: Collection[str], hosts: Collection[str] = ()
) -> Iterator[tuple[Event, str]]:
    """The same, each with the boot in which it was read."""
    rows = store.table("events", window).filter(pl.col("kind").is_in(list(kinds)))
    if hosts:
        rows = rows.filter(pl.col("host").is_in(list(hosts)))
    columns = (
        "time",
        "seq",
        "n",
        "host",
        "boot_id",
        "device",
        "device_kind",
        "mono_ns",
        "kind",
        "attributes",
    )
    for row in store.collect(rows.select(columns).sort("time", "seq", "n")).iter_rows(named=True):
        event = Event(
            round(row["time"].timestamp() * 1e6) * 1000,
            row["mono_ns"],
            Device(row["host"], row["device_kind"], row["device"]),
            row["kind"],
            orjson.loads(row["attributes"]),
        )
        yield event, row["boot_id"]
