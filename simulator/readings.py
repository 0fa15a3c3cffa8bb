"""What the sensors and registers of a simulated node show at one instant: native units, rounding
and widths of NVML and of the kernel.

One name per quantity; the NVML rendering maps questions to names (nvml_questions.py). Registers of
ports have the names of their files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.gpus import HW_BRAKE, HW_THERMAL, POWER_CAP, SW_THERMAL
from simulator.mig import Instance
from simulator.node import Node

Reading = NDArray[Any]

# Bits of the counters in counters/ (drivers/infiniband/core/sysfs.c); those that are not here
# have 64. They stick at their maximum.
_WIDTH = {
    "symbol_error": 16,
    "link_error_recovery": 8,
    "link_downed": 8,
    "port_rcv_errors": 16,
    "port_rcv_remote_physical_errors": 16,
    "port_rcv_switch_relay_errors": 16,
    "port_xmit_discards": 16,
    "port_xmit_constraint_errors": 8,
    "port_rcv_constraint_errors": 8,
    "local_link_integrity_errors": 4,
    "excessive_buffer_overrun_errors": 4,
    "VL15_dropped": 16,
    "port_xmit_wait": 32,
}
# Registers of counters/ and what they count; those without a name stay at 0 here.
_ERRORS = {
    "symbol_error": "symbol",
    "link_error_recovery": "recovery",
    "link_downed": "downed",
    "port_rcv_errors": "receive",
    "port_rcv_remote_physical_errors": "remote_physical",
    "port_xmit_discards": "discards",
    "local_link_integrity_errors": "integrity",
    "port_xmit_wait": "wait",
    "VL15_dropped": "",
    "port_rcv_switch_relay_errors": "",
    "port_xmit_constraint_errors": "",
    "port_rcv_constraint_errors": "",
    "excessive_buffer_overrun_errors": "",
}

MIB = 1 << 20
PACKET_BYTES = 256  # NVLink packets carry up to 256 bytes


def gpu_readings(node: Node) -> dict[str, Reading]:
    """Arrays (GPU,) by name: int64 and uint64 as registers hold them,
    float64 for GPM's percentages.
    """
    return (
        _sensors(node) | _use(node) | _memory(node) | _errors(node) | _pcie(node) | _activity(node)
    )


def link_readings(node: Node) -> dict[str, Reading]:
    """Arrays (GPU, link) by name, uint64."""
    links = node.nvlinks
    sent, received = links.sent.value, links.received.value
    readings: dict[str, Reading] = {
        "up": (links.up & node.gpus.present[:, None]).astype(np.int64),
        "sent_kib": sent // 1024,
        "received_kib": received // 1024,
        "raw_sent_kib": sent // 1024 + sent // 16384,  # headers and flow control: about 6 %
        "raw_received_kib": received // 1024 + received // 16384,
        "replays": links.replays,
        "recoveries": links.recoveries,
        "crc": links.crc,
        "zero": np.zeros(links.up.shape, np.uint64),
    }
    if links.model.version >= 5:
        readings |= {
            "sent_bytes": sent,
            "received_bytes": received,
            "sent_packets": sent // PACKET_BYTES,
            "received_packets": received // PACKET_BYTES,
            "ber_word": np.where(links.error_rate > 0, BER_BAD, BER_NONE).astype(np.uint64),
        }
        readings |= {f"fec_{k}": links.fec[..., k] for k in range(links.fec.shape[-1])}
    return readings


def port_readings(node: Node) -> dict[str, Reading]:
    """Arrays (port,) by the name of the file below the port's folder
    (``counters/symbol_error``), uint64.
    """
    ports = node.ports
    zero = np.zeros(node.port_count, np.uint64)
    found = {name: ports.errors.get(errors, zero) for name, errors in _ERRORS.items()}
    for way, amount, packets in (
        ("xmit", ports.sent, ports.sent_packets.value),
        ("rcv", ports.received, ports.received_packets.value),
    ):
        found[f"port_{way}_data"] = amount.value // 4
        found[f"port_{way}_packets"] = packets
        found[f"multicast_{way}_packets"] = packets // 100_000
        found[f"unicast_{way}_packets"] = packets - packets // 100_000
    readings = {
        f"counters/{name}": np.minimum(value, 2 ** _WIDTH.get(name, 64) - 1)
        for name, value in found.items()
    }
    return readings | {
        "hw_counters/rx_write_requests": ports.received_packets.value // 32,
        "hw_counters/rx_read_requests": ports.received_packets.value // 4096,
        "hw_counters/local_ack_timeout_err": ports.errors["downed"]
        * 8,  # peers that waited for a port that was down
    }


def instance_readings(gpu: dict[str, Reading], instances: Sequence[Instance]) -> dict[str, Reading]:
    """Arrays (instance,) by name, from those of the GPUs: each instance works as its GPU
    does, on its own memory.
    """
    which = np.array([i.gpu for i in instances], np.intp)
    total = np.array([i.memory_mib for i in instances], np.int64) * MIB
    reserved = total // 256 // MIB * MIB
    share = gpu["memory_used"][which] / (gpu["memory_used"] + gpu["memory_free"])[which]
    used = (share * (total - reserved)).astype(np.int64) // MIB * MIB
    bar1 = (
        (gpu["bar1_used"] + gpu["bar1_free"])[which] * np.array([i.slices for i in instances]) // 8
    )
    readings: dict[str, Reading] = {
        "memory_total": total,
        "memory_reserved": reserved,
        "memory_used": used,
        "memory_free": total - reserved - used,
        "bar1_total": bar1,
        "bar1_used": np.minimum(gpu["bar1_used"][which], bar1),
        "bar1_free": bar1 - np.minimum(gpu["bar1_used"][which], bar1),
    }
    return readings | {
        name: values[which] for name, values in gpu.items() if values.dtype == np.float64
    }


# NVLink 5 bit error ratios are words: bits 0-7 a negative exponent of ten, bits 8-11 a mantissa;
# 15e-255 says that there were none.
BER_NONE = 15 << 8 | 255
BER_BAD = 3 << 8 | 11


def _sensors(node: Node) -> dict[str, Reading]:
    gpus, model = node.gpus, node.profile.gpu
    temperature = gpus.shown_temperature()
    clock = gpus.shown_clock()
    idle = clock <= model.clock_idle_mhz
    readings: dict[str, Reading] = {
        "temperature": temperature,
        "margin": model.max_operating_c - temperature,
        "memory_temperature": np.rint(gpus.memory_c).astype(np.int64),
        "power_mw": (gpus.power_average_w * 1000).astype(np.int64),
        "power_instant_mw": (gpus.power_w * 1000).astype(np.int64),
        "limit_mw": (gpus.limit_w * 1000).astype(np.int64),
        "energy_mj": gpus.energy_mj.value,
        "sm_clock": clock,
        "memory_clock": np.full(clock.shape, model.memory_clock_mhz),
        "video_clock": np.where(
            idle,
            model.video_clock_max_mhz // 2,
            (clock * model.video_clock_max_mhz) // model.clock_max_mhz,
        ),
        "reasons": gpus.reasons,
        "zero": np.zeros(clock.shape, np.uint64),
    }
    for name, bit in (
        ("power_cap_ns", POWER_CAP),
        ("sw_thermal_ns", SW_THERMAL),
        ("hw_thermal_ns", HW_THERMAL),
        ("brake_ns", HW_BRAKE),
    ):
        readings[name] = gpus.slowed_ns[bit].value
    readings["thermal_ns"] = readings["sw_thermal_ns"] + readings["hw_thermal_ns"]
    return readings


def _use(node: Node) -> dict[str, Reading]:
    gpus, model = node.gpus, node.profile.gpu
    total = (model.memory_mib - model.reserved_mib) * MIB
    share = node.demand.memory * gpus.present * (1 + 0.004 * np.arange(model.count) / model.count)
    # an idle GPU under persistence mode holds about 2 MiB
    used = 2 * MIB + np.minimum(share, 0.99) * total
    used = (used // MIB * MIB).astype(np.int64)
    processes = np.where(node.demand.processes & gpus.present, 1, 0)
    bar1 = np.where(processes > 0, 24 * MIB, MIB)
    return {
        "gpu_utilization": np.rint(gpus.busy * 100).astype(np.int64),
        "memory_utilization": np.rint(gpus.dram * 100).astype(np.int64),
        "memory_used": used,
        "memory_free": total - used,
        "bar1_used": bar1,
        "bar1_free": model.bar1_mib * MIB - bar1,
        "processes": processes,
        "pid": np.where(processes > 0, node.workload.job.pid + np.arange(model.count), 0),
    }


def _memory(node: Node) -> dict[str, Reading]:
    cells = node.cells
    readings: dict[str, Reading] = {
        "remapped_correctable": cells.remapped[True],
        "remapped_uncorrectable": cells.remapped[False],
        "remap_pending": cells.pending.astype(np.int64),
        "remap_failed": cells.failed.astype(np.int64),
        "sram_threshold": cells.sram_threshold.astype(np.int64),
        "recovery_action": node.recovery_action,
        "fabric_state": node.fabric.state,
        "fabric_status": node.fabric.status,
        "fabric_mask": node.fabric.mask,
        "fabric_health": node.fabric.health,
    }
    histogram = np.array([cells.histogram(gpu) for gpu in range(cells.gpus)], np.int64).T
    for name, banks in zip(("max", "high", "partial", "low", "none"), histogram, strict=True):
        readings[f"banks_{name}"] = banks
    return readings


def _errors(node: Node) -> dict[str, Reading]:
    cells = node.cells
    readings: dict[str, Reading] = {}
    for life, counts in (("volatile", cells.volatile), ("aggregate", cells.aggregate)):
        for corrected, word in ((True, "corrected"), (False, "uncorrected")):
            for place in ("dram", "sram"):
                readings[f"{place}_{word}_{life}"] = counts[place, corrected]
            readings[f"ecc_{word}_{life}"] = cells.total(
                corrected=corrected, lifetime=life == "aggregate"
            )
    return readings


def _pcie(node: Node) -> dict[str, Reading]:
    model = node.profile.gpu
    # An idle link falls back to generation 1 to save power; work brings it back.
    generation = np.where(node.demand.processes, node.pcie_generation, 1)
    return {
        "pcie_generation": generation,
        "pcie_width": node.pcie_width,
        "pcie_replays": node.pcie_replays,
        "pcie_sent": node.pcie_sent.value,
        "pcie_received": node.pcie_received.value,
        "pcie_sent_rate_kb": (node.pcie_rate * 0.7 / 1e3).astype(np.int64),
        "pcie_received_rate_kb": (node.pcie_rate / 1e3).astype(np.int64),
        "pcie_sent_rate_mib": node.pcie_rate * 0.7 / MIB,
        "pcie_received_rate_mib": node.pcie_rate / MIB,
        "pcie_generation_max": np.full(model.count, model.pcie_generation),
    }


def _activity(node: Node) -> dict[str, Reading]:
    gpus = node.gpus
    tensor, dram = gpus.tensor * 100, gpus.dram * 100
    sm = gpus.busy * np.where(gpus.tensor > 0, 88.0, 12.0)
    link = node.profile.nvlink
    rate = node.demand.nvlink * link.gigabytes_per_second * 1e9 * link.links / MIB * gpus.present
    return {
        "graphics_active": gpus.busy * 100,
        "sm_active": sm,
        "sm_occupancy": sm * 0.31,
        "tensor_active": tensor,
        "dram_active": dram,
        "fp32_active": tensor * 0.12,
        "fp16_active": tensor * 0.05,
        "fp64_active": tensor * 0.0,
        "integer_active": tensor * 0.2,
        "nothing": np.zeros(tensor.shape),
        "nvlink_rate_mib": rate,
        "c2c_rate_mib": node.pcie_rate / MIB,
    }
