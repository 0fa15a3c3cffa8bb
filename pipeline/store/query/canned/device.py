"""The question about one device: every field of it in the window, in base units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from pipeline.catalog import Field, fields_of
from pipeline.store.files.units import base_name, base_value
from pipeline.store.query.canned.question import UnknownDeviceError, means, names, risen
from pipeline.store.query.increase import increases
from pipeline.store.query.plot import Panel
from pipeline.store.query.store import Store, Window

# What is drawn of each kind: gauges in base units, counters.
GAUGES = {
    "gpu": (
        "power_watts",
        "temperature_celsius",
        "sm_clock_hertz",
        "gpu_utilization_ratio",
        "memory_used_bytes",
    ),
    "gpu_instance": ("memory_used_bytes", "sm_activity_ratio"),
    "ib_port": ("rate_bytes_per_second",),
    "node": ("memory_available_bytes",),
}
COUNTERS = {
    "gpu": ("ecc_corrected_volatile", "pcie_replays"),
    "ib_port": ("receive_words", "symbol_errors"),
    "nvlink": ("transmit_kibibytes", "data_link_replay_errors"),
}


def device(store: Store, window: Window) -> pl.DataFrame:
    """Per field that was observed: least, mean and highest value of a gauge, increase of a counter,
    the last value, and samples.

    UnknownDeviceError where the window has several, as a name such as ``0`` may in a store of many
    nodes: their readings are not one device's.
    """
    if len(set(window.devices)) > 1:
        there = ", ".join(window.devices)
        raise UnknownDeviceError(f"give one device by its id; there is {there}")
    found: list[dict[str, Any]] = []
    for kind in _kinds(store, window):
        fields = fields_of(kind)
        gauges = [field for field in fields if field.type == "gauge"]
        counters = [field for field in fields if field.type == "counter"]
        rows = store.table(kind, window)
        made = store.collect(
            rows.select(expression for field in fields for expression in _expressions(field))
        ).row(0, named=True)
        observed = [field.name for field in counters if made[f"{field.name} n"]]
        rose = increases(store, kind, observed, window)
        found += [_gauge(field, made) for field in gauges if made[f"{field.name} n"]]
        found += [
            _counter(field, made, rose[field.name].to_list())
            for field in counters
            if field.name in observed
        ]
    kinds = {
        "field": pl.String,
        "type": pl.String,
        "minimum": pl.Float64,
        "mean": pl.Float64,
        "maximum": pl.Float64,
    }
    return pl.DataFrame(
        found, schema={**kinds, "increase": pl.Float64, "last": pl.String, "samples": pl.Int64}
    )


def draw_device(store: Store, window: Window) -> Sequence[Panel]:
    """The most important columns, one panel each."""
    panels = []
    for kind in _kinds(store, window):
        panels += [
            Panel(name, "", means(store, kind, name, window)) for name in GAUGES.get(kind, ())
        ]
        panels += [
            Panel(f"{name}, increase", "", risen(store, kind, [name], window))
            for name in COUNTERS.get(kind, ())
        ]
    return panels


def _kinds(store: Store, window: Window) -> list[str]:
    known = names(store, window)
    return sorted({kind for who, kind in known.kinds.items() if who[1] in window.devices})


def _expressions(field: Field) -> list[pl.Expr]:
    """What is asked of a field: number of samples, last value, and of a gauge that is no
    state its range and mean.
    """
    column, based = pl.col(field.name), base_value(field, pl.col(field.name))
    last = (
        based.sort_by("time")
        .filter(column.sort_by("time").is_not_null())
        .last()
        .alias(f"{field.name} last")
    )
    asked = [column.count().alias(f"{field.name} n"), last]
    if field.type == "gauge" and not field.states:
        asked += [
            f(based.cast(pl.Float64)).alias(f"{field.name} {n}")
            for n, f in (("min", pl.Expr.min), ("mean", pl.Expr.mean), ("max", pl.Expr.max))
        ]
    return asked


def _gauge(field: Field, made: dict[str, Any]) -> dict[str, Any]:
    numbers = {
        long: made.get(f"{field.name} {short}")
        for long, short in (("minimum", "min"), ("mean", "mean"), ("maximum", "max"))
    }
    return {**_about(field, made), **numbers}


def _counter(field: Field, made: dict[str, Any], increase: Sequence[int | None]) -> dict[str, Any]:
    known = [rose for rose in increase if rose is not None]
    return {**_about(field, made), "increase": float(field.base(sum(known))) if known else None}


def _about(field: Field, made: dict[str, Any]) -> dict[str, Any]:
    last = made[f"{field.name} last"]
    text = (
        last if isinstance(last, str) else f"{last:.15g}" if isinstance(last, float) else str(last)
    )
    return {
        "field": base_name(field),
        "type": field.type,
        "last": text,
        "samples": made[f"{field.name} n"],
    }
