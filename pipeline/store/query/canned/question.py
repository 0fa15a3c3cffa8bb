"""What a canned question is, and what the questions share: names of devices, buckets of time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import orjson
import polars as pl

from pipeline.catalog import KINDS
from pipeline.catalog import field as field_of
from pipeline.store.files.units import scaled
from pipeline.store.query.increase import rising
from pipeline.store.query.plot import Panel
from pipeline.store.query.store import Store, Window

POINTS = 360  # of a line in a plot, at most about
STEPS_S = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 86_400)
# slow facts hold until they change, and every day's files begin with a row of them
LOOK_BACK = timedelta(days=1)


class UnknownDeviceError(LookupError):
    """No device, or more than one, is what was asked for; the message says what there is."""


@dataclass(frozen=True, slots=True)
class Question:
    """``ask`` gives the table, one row per thing and in base units;
    ``draw`` the panels of its plot.
    """

    ask: Callable[[Store, Window], pl.DataFrame]
    draw: Callable[[Store, Window], Sequence[Panel]]
    about_devices: bool = True  # whether --device means anything to it


@dataclass(frozen=True, slots=True)
class Names:
    """Names of devices: ``of`` (host, id) to the usual name, and their slow facts."""

    facts: Mapping[tuple[str, str], Mapping[str, str]]
    kinds: Mapping[tuple[str, str], str]

    def of(self, host: str, device: str) -> str:
        """The index of a GPU, ``mlx5_0/1`` of a port, ``3/17`` of an NVLink; the
        identity where nothing is known.
        """
        facts, kind = self.facts.get((host, device), {}), self.kinds.get((host, device), "")
        labels = KINDS[kind].labels if kind in KINDS else ()
        words = [facts.get(fact, "") for _, fact in labels if fact not in ("@id", "gpu_uuid")]
        return "/".join(word for word in words if word) or device


def names(store: Store, window: Window) -> Names:
    """Names and facts of all devices as they were last in the window."""
    since = None if window.since is None else window.since - LOOK_BACK
    rows = store.table("devices", Window(since, window.until)).filter(
        pl.col("kind").is_in(list(KINDS))
    )
    last = store.collect(
        rows.select(
            "host",
            "device",
            "kind",
            "time",
            "attributes",
            pl.col("attributes").str.len_bytes().alias("n"),
        )
    )
    facts, kinds = {}, {}
    for host, device, kind, _, attributes, _ in last.sort(
        "time", "n"
    ).rows():  # of equally new ones the fuller
        facts[host, device], kinds[host, device] = orjson.loads(attributes), kind
    return Names(facts, kinds)


def named(rows: pl.DataFrame, known: Names, column: str = "name") -> pl.DataFrame:
    """The table with what each device is called between ``host`` and ``device``, sorted by both."""
    pairs = rows.select("host", "device").rows()
    words = pl.Series(column, [known.of(*pair) for pair in pairs], pl.String)
    rest = [name for name in rows.columns if name not in ("host", "device")]
    return (
        rows.with_columns(words)
        .select("host", column, "device", *rest)
        .sort("host", pl.col(column).str.len_chars(), column)
    )


def resolve(store: Store, window: Window, texts: Sequence[str]) -> Window:
    """The window with the ids of devices: given whole, by their unique beginning, or by name
    as ``0`` or ``mlx5_0/1``.

    UnknownDeviceError where there is none, or where it is not clear which one is meant.
    """
    known = names(store, window)
    found: list[str] = []
    for text in texts:
        ids = {device for _, device in known.facts}
        exact = [device for device in ids if device == text] or sorted(
            {d for h, d in known.facts if known.of(h, d) == text}
        )
        matches = exact or sorted(
            device
            for device in ids
            if device.startswith(text) and "/" not in device.removeprefix(text)
        )
        if len(matches) != 1 and not (exact and len({h for h, d in known.facts if d in exact}) > 1):
            there = ", ".join(matches or sorted(d for d in ids if "/" not in d)) or "none at all"
            raise UnknownDeviceError(
                f"{'which of' if matches else 'no'} device {text!r}: there is {there}"
            )
        found += matches
    return replace(window, devices=tuple(found))


def span_of(window: Window, rows: pl.DataFrame) -> float:
    """Seconds that a window covers, as far as there are rows with a time."""
    times = rows["time"] if "time" in rows.columns and len(rows) else None
    first = window.since or (times.min() if times is not None else None)
    last = window.until or (times.max() if times is not None else None)
    return (
        (last - first).total_seconds()
        if isinstance(first, datetime) and isinstance(last, datetime)
        else 0.0
    )


def step_for(seconds: float) -> int:
    """Seconds of a bucket so that a line has at most about POINTS points.

    >>> step_for(3600), step_for(7 * 86_400)
    (15, 3600)
    """
    return next((step for step in STEPS_S if seconds / step <= POINTS), STEPS_S[-1])


def means(store: Store, kind: str, column: str, window: Window) -> pl.DataFrame:
    """Means of a gauge in base units per bucket and device: columns time, name, value."""
    bounds = store.collect(
        store.table(kind, window).select(
            pl.col("time").min().alias("a"), pl.col("time").max().alias("b")
        )
    )
    step = (
        step_for((bounds["b"][0] - bounds["a"][0]).total_seconds())
        if bounds["a"][0] is not None
        else 1
    )
    asked = store.base(kind, window).group_by(
        "host", "device", pl.col("time").dt.truncate(f"{step}s")
    )
    return _labelled(
        store,
        window,
        store.collect(asked.agg(pl.col(column).cast(pl.Float64).mean().alias("value"))),
    )


def risen(
    store: Store, kind: str, counters: Sequence[str], window: Window, *, by_counter: bool = False
) -> pl.DataFrame:
    """Increases of some counters, added up, in base units per bucket and device (or counter):
    columns time, name, value.
    """
    parts = []
    bounds: list[Any] = [None, None]
    found = list(rising(store, kind, counters, window))
    for samples in found:
        if len(samples.time_us):
            low, high = int(samples.time_us.min()), int(samples.time_us.max())
            bounds = [
                low if bounds[0] is None else min(bounds[0], low),
                high if bounds[1] is None else max(bounds[1], high),
            ]
    step = step_for((bounds[1] - bounds[0]) / 1e6) * 1_000_000 if bounds[0] is not None else 1
    for (host, device), name, delta, known, time_us in found:
        buckets, at = np.unique(time_us // step * step, return_inverse=True)
        total = np.bincount(at, np.where(known, delta, 0).astype(np.float64), len(buckets))
        scaled = np.array([field_of(kind, name).base(value) for value in total.tolist()])
        who = {"host": host, "device": name if by_counter else device}
        parts.append(
            pl.DataFrame({"time": buckets, "value": scaled}).with_columns(
                **{k: pl.lit(v) for k, v in who.items()}
            )
        )
    if not parts:
        return pl.DataFrame(
            schema={"time": pl.Datetime("us", "UTC"), "name": pl.String, "value": pl.Float64}
        )
    rows = pl.concat(parts).group_by("host", "device", "time").agg(pl.col("value").sum())
    return _labelled(
        store, window, rows.with_columns(pl.col("time").cast(pl.Datetime("us", "UTC")))
    )


def _labelled(store: Store, window: Window, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with one name per line: the device, and the host where there are several."""
    known, several = names(store, window), rows["host"].n_unique() > 1
    pairs = rows.select("host", "device").rows()
    label = [
        f"{host} {known.of(host, device)}" if several else known.of(host, device)
        for host, device in pairs
    ]
    return (
        rows.with_columns(pl.Series("name", label, pl.String))
        .select("time", "name", "value")
        .sort("name", "time")
    )


def last_of(column: str) -> pl.Expr:
    """The newest observed value."""
    return pl.col(column).sort_by("time").drop_nulls().last().alias(column)


def base_of(kind: str, rows: pl.DataFrame, columns: Iterable[tuple[str, str]]) -> pl.DataFrame:
    """Counters' increases (native, uint64) under new names in base units:
    (native name, new name).
    """
    made = [scaled(field_of(kind, native), pl.col(native)).alias(name) for native, name in columns]
    return rows.select("host", "device", *made)
