"""A seeded day of one node of eight GPUs with ninety columns at 1 Hz: data whose noise is known,
the same for every database.

Whole-node jobs come and go; load makes power, heat, clocks, activity and traffic, each with noise
of its own; errors are rare, and half of the columns never change. Columns bear names of the
catalogue where it has the thing, else of one of like kind.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._peers import Series, milliseconds
from pipeline.frame import Device, Frame, blank, schema_of
from pipeline.observation import Observation
from pipeline.store.keep.compact import compact
from pipeline.store.keep.generations import Pass
from pipeline.store.query.store import Store
from tests import node_day
from tests.node_day import BOOT, DAY_S, HOST, MIDNIGHT_NS, Counted

GPUS = 8
GIB, MIB = 1 << 30, 1 << 20
ECC = [
    f"ecc_{kind}_{life}{place}"
    for place in ("", "_dram", "_sram")
    for life in ("volatile", "aggregate")
    for kind in ("corrected", "uncorrected")
]
SHARES = {  # activity of a unit at full load; one unit is idle
    "graphics_activity": 0.97,
    "sm_activity": 0.85,
    "sm_occupancy": 0.35,
    "tensor_activity": 0.52,
    "dram_activity": 0.41,
    "fp64_activity": 0.07,
    "fp32_activity": 0.03,
    "fp16_activity": 0.05,
    "integer_activity": 0.30,
    "tensor_dfma_activity": 0.0,
}
RATES = {  # per second at full load
    "pcie_transmit_bytes": 2.1e9,
    "pcie_receive_bytes": 3.3e9,
    "nvlink_transmit_bytes": 2.2e8,
    "nvlink_receive_bytes": 2.2e8,
    "nvlink_raw_transmit_kibibytes": 2.4e8,
    "nvlink_raw_receive_kibibytes": 2.4e8,
}
LINKS = [
    "nvlink_crc_flit_errors",
    "nvlink_crc_data_errors",
    *(f"nvlink_fec_{i}_codewords" for i in range(16)),
]
# per second
RARE = {"pcie_replays": 2e-5, **dict.fromkeys(LINKS, 2e-7), **dict.fromkeys(ECC, 3e-7)}
RARE |= {LINKS[0]: 3e-5, **dict.fromkeys(ECC[:3], 4e-5)}
CONSTANT = {
    "power_limit_enforced_milliwatts": 700_000,
    "power_limit_default_milliwatts": 700_000,
    "power_limit_maximum_milliwatts": 700_000,
    "temperature_shutdown_celsius": 92,
    "temperature_slowdown_celsius": 89,
    "temperature_memory_maximum_celsius": 95,
    "memory_clock_megahertz": 2619,
    "sm_maximum_clock_megahertz": 1980,
    "memory_maximum_clock_megahertz": 2619,
    "video_maximum_clock_megahertz": 1545,
    "sm_application_clock_megahertz": 1980,
    "encoder_utilization_percent": 0,
    "decoder_utilization_percent": 0,
    "jpeg_utilization_percent": 0,
    "optical_flow_utilization_percent": 0,
    "memory_total_bytes": 80 * GIB,
    "memory_reserved_bytes": 520 * MIB,
    "bar1_total_bytes": 128 * GIB,
    "pcie_generation_maximum": 5,
    "pcie_width_current": 16,
    "row_remap_pending": 0,
    "row_remap_failed": 0,
    "row_remap_banks_max": 2560,
    "row_remap_banks_none": 0,
    "mig_mode_current": 0,
    "compute_mode": 0,
}


def columns(seconds: int = DAY_S, seed: int = 23) -> dict[str, Any]:
    """Ninety columns, (GPU, second) each, of the first seconds of the day."""
    rng = np.random.default_rng(seed)
    job = _jobs(rng)
    busy = job >= 0
    dips = np.arange(DAY_S) % 17 < 2
    load = np.clip(np.where(dips, 0.45, 0.93) + rng.normal(0, 0.03, (GPUS, DAY_S)), 0, 1) * busy
    made: dict[str, Any] = {
        name: np.full((GPUS, DAY_S), float(value)) for name, value in CONSTANT.items()
    }
    watts = _smooth(70 + 610 * load, 2) + rng.normal(0, 4, load.shape)
    made["power_milliwatts"] = np.rint(1000 * watts)
    made["power_average_milliwatts"] = np.rint(1000 * _smooth(watts, 1.5))
    made["energy_millijoules"] = (1e12 + np.cumsum(1000 * watts, axis=1)).astype(np.uint64)
    heat = _smooth(33 + 0.8 * np.arange(GPUS)[:, None] + 35 * load, 60)
    made["temperature_celsius"] = np.rint(heat + rng.normal(0, 0.35, load.shape))
    made["memory_temperature_celsius"] = np.rint(heat + 9 + rng.normal(0, 0.3, load.shape))
    lowered = (rng.random(load.shape) < 0.01) & busy
    made["sm_clock_megahertz"] = np.where(busy, 1980.0, 345.0) - lowered * 15 * rng.integers(
        1, 20, load.shape
    )
    made["graphics_clock_megahertz"] = made["sm_clock_megahertz"]
    made["video_clock_megahertz"] = np.broadcast_to(np.where(busy, 1545.0, 345.0), load.shape)
    made["gpu_utilization_percent"] = (
        np.where(dips, rng.integers(60, 100, load.shape), 100.0) * busy
    )
    made["memory_utilization_percent"] = np.rint(52 * load)
    for name, share in SHARES.items():
        ratio = (
            np.clip(share * load + rng.normal(0, 0.004, load.shape), 0, 1) * busy
            if share
            else np.zeros_like(load)
        )
        made[f"{name}_percent"] = np.round(100 * ratio, 4) + 0.0
    made |= _memory(rng, job)
    for name, rate in RATES.items():
        steps = np.floor(np.maximum(rate * load * (1 + rng.normal(0, 0.04, load.shape)), 0)).astype(
            np.uint64
        )
        made[name] = rng.integers(0, 2**40, (GPUS, 1), np.uint64) + np.cumsum(steps, axis=1)
    for name, rate in RARE.items():
        made[name] = np.cumsum(rng.random(load.shape) < rate, axis=1).astype(np.uint64)
    made["pcie_generation_current"] = np.broadcast_to(np.where(busy, 5.0, 1.0), load.shape)
    made["performance_state"] = np.broadcast_to(np.where(busy, 0.0, 8.0), load.shape)
    made["clock_event_reasons"] = np.where(busy, np.where(lowered, 4.0, 0.0), 1.0)
    made["fabric_error_code"] = np.where(
        np.cumsum(rng.random(load.shape) < 1e-6, axis=1) > 0, 79.0, 0.0
    )
    assert len(made) == 90
    _check(made, float(busy.mean()))
    return {name: column[:, :seconds] for name, column in made.items()}


def observations(seconds: int = DAY_S) -> Iterator[Observation]:
    """One read a second."""
    made = columns(seconds)
    schema = schema_of("gpu")
    devices = tuple(
        Device(HOST, "gpu", f"GPU-{i:08d}-86f3-7a43-b711-4771313afc50", {"index": str(i)})
        for i in range(GPUS)
    )
    gauge_rows = {name: row for name, row in schema.gauge_row.items() if name in made}
    counter_rows = {name: row for name, row in schema.counter_row.items() if name in made}
    gauges_of = np.stack([made[name] for name in gauge_rows])
    counters_of = np.stack([made[name] for name in counter_rows])
    for second in range(seconds):
        gauges, counters, observed = blank("gpu", devices)
        gauges[list(gauge_rows.values())] = gauges_of[:, :, second]
        counters[list(counter_rows.values())] = counters_of[:, :, second]
        observed[list(counter_rows.values())] = True
        now = (MIDNIGHT_NS + second * 10**9, (second + 1) * 10**9)
        frame = Frame(schema, *now, devices, gauges, counters, observed, np.zeros(GPUS, np.int64))
        yield Observation("nvml", HOST, BOOT, second, *now, 900_000, (frame,))


def compacted(root: Path, seconds: int = DAY_S) -> Counted | None:
    """Write the day below ``root`` as an agent does and compact it; ``DAY=folder`` in the
    environment takes one written before (then None).
    """
    if kept := os.environ.get("DAY"):
        root.symlink_to(Path(kept).absolute())
        return None
    counted = node_day.write(root, observations(seconds))
    compact(Pass(root, MIDNIGHT_NS // 1000 + 3 * DAY_S * 1_000_000))
    return counted


def series(root: Path, names: list[str] | None = None) -> Iterator[Series]:
    """Columns (all by default) of every GPU out of our files, in base units where those have
    fractions: watts, ratios.
    """
    store = Store(root)
    for name in names or [*CONSTANT, *(n for n in columns(1) if n not in CONSTANT)]:
        column = (
            store.table("gpu")
            .select("device", "time", name)
            .drop_nulls()
            .sort("device", "time")
            .collect()
        )
        for (device,), part in column.group_by("device", maintain_order=True):
            values = part[name].to_numpy()
            if name in {f"{unit}_percent" for unit in SHARES}:
                values = np.round(values / 100, 6)
            elif name == "power_average_milliwatts":
                values = values / 1000
            times = milliseconds(part["time"].dt.timestamp("us").to_numpy())
            yield Series(f"gpu_{name}", {"host": HOST, "gpu": str(device)}, times, values)


def _jobs(rng: Any) -> Any:
    """Number of the job in each second, -1 where the node is idle."""
    job, at, number = np.full(DAY_S, -1), 0, 0
    while at < DAY_S:
        length = int(rng.exponential(9000)) + 600
        job[at : at + length] = number
        at += length + int(rng.exponential(3800)) + 60
        number += 1
    return job


def _memory(rng: Any, job: Any) -> dict[str, Any]:
    shape, busy = (GPUS, DAY_S), job >= 0
    base = rng.integers(50, 78, (GPUS, job.max() + 1))[:, job] * GIB
    walk = 2 * MIB * np.floor(np.cumsum(rng.normal(0, 0.02, shape), axis=1))
    used = np.where(busy, base + walk, 620.0 * MIB)
    bar1 = np.broadcast_to(np.where(busy, 2.0 * GIB, 2.0 * MIB), shape)
    return {
        "memory_used_bytes": used,
        "memory_free_bytes": 80 * GIB - used,
        "bar1_used_bytes": bar1,
    }


def _smooth(values: Any, seconds: float) -> Any:
    """One-pole low pass along the day."""
    share, result = 1 - np.exp(-1 / seconds), np.array(values, float)
    for second in range(1, result.shape[1]):
        result[:, second] = result[:, second - 1] + share * (
            result[:, second] - result[:, second - 1]
        )
    return result


def _check(made: dict[str, Any], busy: float) -> None:
    """The data is what it is meant to be: about half busy, a seventh of the samples new, half
    of the columns constant.
    """
    changing = float(np.mean([(np.diff(column, axis=1) != 0).mean() for column in made.values()]))
    constant = sum(bool((column == column[:, :1]).all()) for column in made.values())
    assert abs(busy - 0.56) < 0.02, busy
    assert abs(changing - 0.144) < 0.02, changing
    assert constant == 49, constant
