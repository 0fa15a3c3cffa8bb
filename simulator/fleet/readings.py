"""From the fleet's physics to the catalogue's fields: what the registers show at
each tick, in native units.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulator.fleet.columns import Chunk, Columns
from simulator.fleet.demand import Demands
from simulator.fleet.gpus import FleetGpus, GpuChunk
from simulator.fleet.ports import PortChunk
from simulator.gpus import HW_BRAKE, HW_THERMAL, POWER_CAP, SW_THERMAL

Floats = NDArray[np.float64]

GPUS = 8
MIB = 1 << 20
IDLE_MEMORY = 2 * MIB  # what an idle GPU under persistence mode holds
# of PCIe traffic, seen from the GPU: it sends less than it receives (simulator/node.py)
SENT_SHARE = 0.7
PCIE_LANE_SHARE = 63e9  # bytes per second of PCIe 5.0 x16 each way

# busy, tensor and memory activity of a rank that computes while the others of its job wait for it
ALONE = (1.0, 0.3, 0.4)

_SLOWED = {
    POWER_CAP: "throttled_power_cap_nanoseconds",
    SW_THERMAL: "throttled_sw_thermal_nanoseconds",
    HW_THERMAL: "throttled_hw_thermal_nanoseconds",
    HW_BRAKE: "throttled_hw_power_brake_nanoseconds",
}
_ACTIVITIES = ("graphics", "sm", "tensor", "dram")
# Registers that the fleet's world moves: those of every tick, and those that
# change when something happens.
_LIVE = frozenset(
    {
        "gpu_utilization_percent",
        "memory_utilization_percent",
        "compute_processes",
        "memory_used_bytes",
        "memory_free_bytes",
        "sm_clock_megahertz",
        "graphics_clock_megahertz",
        "memory_clock_megahertz",
        "power_milliwatts",
        "power_instant_milliwatts",
        "power_average_milliwatts",
        "temperature_celsius",
        "memory_temperature_celsius",
        "temperature_margin_celsius",
        "clock_event_reasons",
        "pcie_generation_current",
        "pcie_transmit_mebibytes_per_second",
        "pcie_receive_mebibytes_per_second",
        "nvlink_transmit_mebibytes_per_second",
        "nvlink_receive_mebibytes_per_second",
        *(f"{name}_activity_percent" for name in _ACTIVITIES),
        "energy_millijoules",
        "pcie_transmit_bytes",
        "pcie_receive_bytes",
        *_SLOWED.values(),
    }
)
_STANDING = frozenset(
    {
        "power_limit_enforced_milliwatts",
        "pcie_width_current",
        "nvlinks_up",
        "nvlinks_down",
        "recovery_action",
        "row_remap_pending",
        "row_remap_failed",
        "sram_threshold_exceeded",
        *(f"row_remap_banks_{name}" for name in ("max", "high", "partial", "low", "none")),
        "remapped_rows_correctable",
        "remapped_rows_uncorrectable",
        *(
            f"ecc_{word}_{life}{place}"
            for word in ("corrected", "uncorrected")
            for life in ("volatile", "aggregate")
            for place in ("", "_dram", "_sram")
        ),
        *(
            f"sram_{word}_{life}"
            for word in ("corrected", "parity", "sec_ded")
            for life in ("volatile", "aggregate")
        ),
        "pcie_replays",
        "pcie_replay_rollovers",
        "pcie_recoveries",
        "pcie_correctable_errors",
        "pcie_non_fatal_errors",
        "pcie_fatal_errors",
        "nvlink_replay_errors",
        "nvlink_recovery_errors",
        "nvlink_crc_flit_errors",
    }
)
GPU_FIELDS = _LIVE | _STANDING
PORT_FIELDS = frozenset(
    {
        "state",
        "physical_state",
        "rate_bits_per_second",
        "width_lanes",
        "receive_words",
        "transmit_words",
        "receive_packets",
        "transmit_packets",
        "symbol_errors",
        "link_error_recoveries",
        "link_downed",
        "receive_errors",
        "receive_remote_physical_errors",
        "transmit_discards",
        "local_link_integrity_errors",
        "buffer_overrun_errors",
        "transmit_wait_ticks",
        "local_ack_timeout_err",
    }
)


def gpu_chunk(
    columns: Columns,
    gpus: FleetGpus,
    made: GpuChunk,
    demands: Demands,
    *,
    unseen: Floats,
    dt: float,
) -> Chunk:
    """One chunk of GPU readings, arrays (tick, GPU).

    ``unseen`` is the share of each tick after its reading.
    """
    works = ~gpus.dead

    def each(nodes: Floats) -> Floats:
        return np.asarray(np.repeat(nodes, GPUS, axis=1) * works)

    held = (demands.memory > 0) * 1.0
    busy, tensor, dram = (
        each(demands.busy),
        each(demands.tensor) * (1 + gpus.job_offset),
        each(demands.dram),
    )
    if gpus.alone.any():
        busy[:, gpus.alone], tensor[:, gpus.alone], dram[:, gpus.alone] = ALONE
    total = (gpus.memory_mib) * MIB
    used = np.floor((IDLE_MEMORY + np.minimum(each(demands.memory), 0.99) * total) / MIB) * MIB
    lanes = columns.gauges[columns.schema.gauge_row["pcie_width_current"]] / gpus.pcie_width
    speed = lanes * 2.0 ** (gpus.pcie_generation - 5) * PCIE_LANE_SHARE
    pcie = each(demands.pcie + 2e-6) * speed
    nvlink = each(demands.nvlink) * (gpus.nvlink_bytes_per_s / MIB)
    power = np.floor(made.power_w * 1000)
    gauges = {
        "gpu_utilization_percent": np.rint(busy * 100),
        "memory_utilization_percent": np.rint(dram * 100),
        "compute_processes": np.repeat(held, GPUS, axis=1) * ~gpus.processless,
        "memory_used_bytes": used,
        "memory_free_bytes": total - used,
        "sm_clock_megahertz": made.clock_mhz,
        "graphics_clock_megahertz": made.clock_mhz,
        "power_milliwatts": power,
        "power_instant_milliwatts": power,
        "power_average_milliwatts": power,
        "temperature_celsius": made.temperature_c,
        "memory_temperature_celsius": made.memory_c,
        "temperature_margin_celsius": gpus.margin_from_c - made.temperature_c,
        "clock_event_reasons": made.reasons,
        "pcie_generation_current": np.where(
            np.repeat(held, GPUS, axis=1) > 0, gpus.pcie_generation, 1.0
        ),
        "pcie_transmit_mebibytes_per_second": pcie * (SENT_SHARE / MIB),
        "pcie_receive_mebibytes_per_second": pcie / MIB,
        "nvlink_transmit_mebibytes_per_second": nvlink,
        "nvlink_receive_mebibytes_per_second": nvlink,
        "graphics_activity_percent": busy * 100,
        "sm_activity_percent": busy * np.where(tensor > 0, 88.0, 12.0),
        "tensor_activity_percent": tensor * 100,
        "dram_activity_percent": dram * 100,
    }
    counters = {
        "energy_millijoules": columns.integrate("energy_millijoules", made.energy_mj, unseen)
    }
    for name, amount in (
        ("pcie_transmit_bytes", pcie * (SENT_SHARE * dt)),
        ("pcie_receive_bytes", pcie * dt),
    ):
        counters[name] = columns.integrate(name, amount, unseen)
    for bit, share in made.slowed.items():
        counters[_SLOWED[bit]] = columns.integrate(_SLOWED[bit], share * (dt * 1e9), unseen)
    return Chunk(gauges, counters)


def port_chunk(columns: Columns, made: PortChunk) -> Chunk:
    """One chunk of port readings."""
    counters = {name: columns.integrate(name, amount) for name, amount in made.increments.items()}
    return Chunk({}, counters)


def twins(columns: Columns, made: PortChunk, chunk: Chunk, asks: NDArray[np.bool_]) -> None:
    """The 64-bit twins of counters, as of the last tick at which the agent asked for them
    (``asks``, one per tick).
    """
    for name in made.increments:
        twin = f"{name}_extended"
        if (
            twin in columns.schema.counter_row
            and columns.observed[columns.schema.counter_row[twin]].any()
        ):
            before = columns.counter(twin).copy()
            hidden = columns.integrate(twin, made.increments[name])
            last = before
            for tick, asked in enumerate(asks.tolist()):
                last = hidden[tick] if asked else last
                hidden[tick] = last
            chunk.counters[twin] = hidden
