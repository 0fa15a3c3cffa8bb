"""Questions about GPUs: memory errors, what held clocks back, power, temperature."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from pipeline.catalog import fields_of
from pipeline.store.query.canned.question import base_of, last_of, means, named, names, risen
from pipeline.store.query.increase import WHO, increases
from pipeline.store.query.plot import Panel
from pipeline.store.query.store import Store, Window

# Errors over the lifetime of the board where the GPU keeps such a count, else
# since the driver was loaded.
ECC = {"corrected": ("ecc_corrected_aggregate", "ecc_corrected_volatile")}
ECC |= {"uncorrected": ("ecc_uncorrected_aggregate", "ecc_uncorrected_volatile")}
REMAPPED = {
    "rows_remapped_correctable": "remapped_rows_correctable",
    "rows_remapped_uncorrectable": "remapped_rows_uncorrectable",
}
FLAGS = ("row_remap_pending", "row_remap_failed")

THROTTLED = {
    f.name: dict(f.labels)["reason"] for f in fields_of("gpu") if f.name.startswith("throttled_")
}
HEAT = ("throttled_sw_thermal_nanoseconds", "throttled_hw_thermal_nanoseconds")


def ecc(store: Store, window: Window) -> pl.DataFrame:
    """Per GPU: errors and rows replaced in the window, and what the remapper says at its end."""
    counters = [*(name for pair in ECC.values() for name in pair), *REMAPPED.values()]
    rose = increases(store, "gpu", counters, window)
    made = [pl.coalesce(pair).alias(name) for name, pair in ECC.items()]
    made += [pl.col(native).alias(name) for name, native in REMAPPED.items()]
    rows = rose.select(*WHO, *made).join(_last(store, window, FLAGS), on=WHO, how="left")
    return named(rows, names(store, window))


def draw_ecc(store: Store, window: Window) -> Sequence[Panel]:
    """Corrected and uncorrected errors over time."""
    return [
        Panel(f"ECC errors, {name}", "", risen(store, "gpu", [pair[0]], window))
        for name, pair in ECC.items()
    ]


def throttle(store: Store, window: Window) -> pl.DataFrame:
    """Per GPU: seconds in which clocks were held back, by reason (they may overlap), null where
    the GPU does not count it.
    """
    rose = base_of(
        "gpu",
        increases(store, "gpu", list(THROTTLED), window),
        [(n, f"{r}_seconds") for n, r in THROTTLED.items()],
    )
    observed = [
        column for column in rose.columns if column in WHO or rose[column].null_count() < len(rose)
    ]
    return named(rose.select(observed), names(store, window))


def draw_throttle(store: Store, window: Window) -> Sequence[Panel]:
    """One panel per reason that held anything back."""
    table = throttle(store, window)
    by_column = {f"{reason}_seconds": (native, reason) for native, reason in THROTTLED.items()}
    busy = [by_column[c] for c in table.columns if c in by_column and (table[c].sum() or 0) > 0]
    return [
        Panel(f"Clocks held back: {reason}", "seconds", risen(store, "gpu", [native], window))
        for native, reason in busy
    ]


def power(store: Store, window: Window) -> pl.DataFrame:
    """Per GPU: mean and highest power, the limit in force, energy, and seconds at the power cap."""
    watts = pl.col("power_watts")
    rows = store.collect(
        store.base("gpu", window)
        .group_by(WHO)
        .agg(
            watts.mean().alias("mean_watts"),
            watts.max().alias("maximum_watts"),
            last_of("power_limit_enforced_watts").alias("limit_watts"),
        )
    )
    counters = [
        ("energy_millijoules", "energy_joules"),
        ("throttled_power_cap_nanoseconds", "power_cap_seconds"),
    ]
    rose = base_of(
        "gpu", increases(store, "gpu", [native for native, _ in counters], window), counters
    )
    energy = (pl.col("energy_joules") / 3.6e6).alias("energy_kilowatt_hours")
    rows = rows.join(rose, on=WHO, how="left").with_columns(energy).drop("energy_joules")
    return named(
        rows.select(*rows.columns[:-2], "energy_kilowatt_hours", "power_cap_seconds"),
        names(store, window),
    )


def draw_power(store: Store, window: Window) -> Sequence[Panel]:
    """Power of each GPU."""
    return [Panel("Power", "watts", means(store, "gpu", "power_watts", window))]


def temperature(store: Store, window: Window) -> pl.DataFrame:
    """Per GPU: mean and highest temperature of core and memory, least margin to slowing down,
    and seconds slowed by heat.
    """
    core, memory, margin = (
        pl.col(f"{name}_celsius")
        for name in ("temperature", "memory_temperature", "temperature_margin")
    )
    rows = store.collect(
        store.table("gpu", window)
        .group_by(WHO)
        .agg(
            core.mean().alias("mean_celsius"),
            core.max().alias("maximum_celsius"),
            memory.max().alias("memory_maximum_celsius"),
            margin.min().alias("least_margin_celsius"),
        )
    )
    heat = [(name, f"{THROTTLED[name]}_seconds") for name in HEAT]
    rose = base_of("gpu", increases(store, "gpu", HEAT, window), heat)
    return named(rows.join(rose, on=WHO, how="left"), names(store, window))


def draw_temperature(store: Store, window: Window) -> Sequence[Panel]:
    """Core and memory of each GPU."""
    return [
        Panel("Temperature", "Celsius", means(store, "gpu", "temperature_celsius", window)),
        Panel(
            "Temperature of the memory",
            "Celsius",
            means(store, "gpu", "memory_temperature_celsius", window),
        ),
    ]


def _last(store: Store, window: Window, columns: Sequence[str]) -> pl.DataFrame:
    return store.collect(
        store.table("gpu", window).group_by(WHO).agg(*(last_of(column) for column in columns))
    )
