"""DCGM's field names: which id a name of a counters file means, and what the
other generation calls it.

Ids and names: dcgm_fields.h of DCGM 3 to 4.7; lower-case names: dcgm-exporter's
1.x-compatibility-metrics.csv.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from pipeline.catalog import FACTS, FIELDS, Dcgm

_DEV = "DCGM_FI_DEV_"
XID = 230

# What the renderer works out from several columns (pipeline/dcgm/derived.py); units stand there.
DERIVED = (
    Dcgm(4, _DEV + "COUNT", "DCGM_FI_SYSTEM_GPU_QUANTITY"),
    Dcgm(63, _DEV + "CUDA_COMPUTE_CAPABILITY", "DCGM_FI_CUDA_GPU_COMPUTE_CAPABILITY"),
    Dcgm(65, _DEV + "COMPUTE_MODE", _DEV + "GPU_COMPUTE_MODE"),
    Dcgm(170, _DEV + "FABRIC_MANAGER_STATUS"),
    Dcgm(XID, _DEV + "XID_ERRORS", _DEV + "XID_ERROR"),
    Dcgm(254, _DEV + "FB_USED_PERCENT", _DEV + "FB_USED_RATIO", whole=False),
    Dcgm(449, _DEV + "NVLINK_BANDWIDTH_TOTAL", _DEV + "NVLINK_THROUGHPUT_TOTAL", successor=1648),
    Dcgm(1648, _DEV + "NVLINK_THROUGHPUT_BYTES_PER_SECOND"),
    Dcgm(526, _DEV + "VGPU_LICENSE_STATUS"),
    Dcgm(1215, _DEV + "NVLINK_COUNT_SYMBOL_BER", _DEV + "NVLINK_SYMBOL_BER_RAW"),
    Dcgm(1217, _DEV + "NVLINK_COUNT_EFFECTIVE_BER", _DEV + "NVLINK_EFFECTIVE_BER_RAW"),
    Dcgm(843, _DEV + "NVLINK_TX_BANDWIDTH_TOTAL", _DEV + "NVLINK_TX_THROUGHPUT_TOTAL"),
    Dcgm(897, _DEV + "NVLINK_RX_BANDWIDTH_TOTAL", _DEV + "NVLINK_RX_THROUGHPUT_TOTAL"),
)

# Ids of lanes 0 to 17 are scattered in four runs; the counter's name, its 4.9 name, and the
# column of an nvlink device.
LANES = {
    "crc_flit_errors": (
        (400, 451, 406, 481),
        "CRC_FLIT_ERROR_COUNT_L{}",
        "CRC_FLIT_ERROR_L{}_TOTAL",
    ),
    "crc_data_errors": (
        (410, 457, 416, 484),
        "CRC_DATA_ERROR_COUNT_L{}",
        "CRC_DATA_ERROR_L{}_TOTAL",
    ),
    "replay_errors": ((420, 463, 426, 487), "REPLAY_ERROR_COUNT_L{}", "REPLAY_ERROR_L{}_TOTAL"),
    "recovery_errors": (
        (430, 469, 436, 491),
        "RECOVERY_ERROR_COUNT_L{}",
        "RECOVERY_ERROR_L{}_TOTAL",
    ),
    "transmit": ((825, 831, 837, 840), "TX_BANDWIDTH_L{}", "TX_THROUGHPUT_L{}"),
    "receive": ((879, 885, 891, 894), "RX_BANDWIDTH_L{}", "RX_THROUGHPUT_L{}"),
    "throughput": ((440, 475, 446, 494), "BANDWIDTH_L{}", "THROUGHPUT_L{}"),
}
_RUNS = (6, 6, 3, 3)

# Fields of one NVLink with labels of their own: column of an nvlink device.
LINK_LEVEL = {
    1508: (_DEV + "NVLINK_GET_STATE", "state"),
    1525: (_DEV + "NVLINK_CRC_FLIT_ERROR_PER_LINK_TOTAL", "crc_flit_errors"),
    1526: (_DEV + "NVLINK_CRC_DATA_ERROR_PER_LINK_TOTAL", "crc_data_errors"),
    1527: (_DEV + "NVLINK_REPLAY_ERROR_PER_LINK_TOTAL", "replay_errors"),
    1528: (_DEV + "NVLINK_RECOVERY_ERROR_PER_LINK_TOTAL", "recovery_errors"),
}

# Exporter fields. GPU health and peer-to-peer status come from DCGM's own watches and
# cannot be had without it.
EXPORTER = {
    "DCGM_EXP_XID_ERRORS_COUNT": 9001,
    "DCGM_EXP_CLOCK_EVENTS_COUNT": 9002,
    "DCGM_EXP_GPU_HEALTH_STATUS": 9003,
    "DCGM_EXP_P2P_STATUS": 9004,
    "DCGM_EXP_XID_ERRORS_TOTAL": 9005,
    "DCGM_EXP_CLOCK_EVENTS_TOTAL": 9006,
}
UNAVAILABLE_EXPORTER = frozenset((9003, 9004))

# What no label can say: values that come with labels of their own, and those of single links.
NO_LABEL = frozenset((XID, *EXPORTER.values(), *LINK_LEVEL))

# 203 is what the name means up to DCGM 4.6; the 4.9 generation of dcgm-exporter gave it to 1613.
AMBIGUOUS = _DEV + "GPU_UTIL_RATIO"

_LEGACY = {
    "sm_clock": 100,
    "memory_clock": 101,
    "memory_temp": 140,
    "gpu_temp": 150,
    "power_usage": 155,
    "total_energy_consumption": 156,
    "pcie_tx_throughput": 200,
    "pcie_rx_throughput": 201,
    "pcie_replay_counter": 202,
    "gpu_utilization": 203,
    "mem_copy_utilization": 204,
    "enc_utilization": 206,
    "dec_utilization": 207,
    "xid_errors": 230,
    "power_violation": 240,
    "thermal_violation": 241,
    "sync_boost_violation": 242,
    "board_limit_violation": 243,
    "low_util_violation": 244,
    "reliability_violation": 245,
    "fb_free": 251,
    "fb_used": 252,
    "ecc_sbe_volatile_total": 310,
    "ecc_dbe_volatile_total": 311,
    "ecc_sbe_aggregate_total": 312,
    "ecc_dbe_aggregate_total": 313,
    "retired_pages_sbe": 390,
    "retired_pages_dbe": 391,
    "retired_pages_pending": 392,
    "nvlink_flit_crc_error_count_total": 409,
    "nvlink_data_crc_error_count_total": 419,
    "nvlink_replay_error_count_total": 429,
    "nvlink_recovery_error_count_total": 439,
    "nvlink_bandwidth_total": 449,
    "fi_prof_gr_engine_active": 1001,
    "fi_prof_sm_active": 1002,
    "fi_prof_sm_occupancy": 1003,
    "fi_prof_pipe_tensor_active": 1004,
    "fi_prof_dram_active": 1005,
    "fi_prof_pcie_tx_bytes": 1009,
    "fi_prof_pcie_rx_bytes": 1010,
}

# Fields that DCGM has and NVML cannot answer, or that no reader of ours asks for: accepted, and
# left out with a warning.
_ELSEWHERE = re.compile(
    # names of go-dcgm v1.4611
    r"DCGM_FI_DEV_(?:BOARD_POWER_PROFILE_(?:ENFORCED|REQUESTED|SUPPORTED)_MASK|CLOCKS_AUTOBOOST_MODE|"
    r"CLOCKS_SUPPORTED|(?:FIRST|LAST)_CONNECTX_FIELD_ID|GPU_VIRTUAL_MODE|MEMORY_AFFINITY_[0-3]|"
    r"(?:MODULE|SYSIO)_POWER_(?:WATTS|UTIL_CURRENT)|"
    r"NVLINK_(?:LINK|P2P)_STATUS|PROCESS_ACCOUNTING_STATS|"
    r"SUPPORTED_VGPU_TYPE_IDS|SXID_(?:NON_)?FATAL_ERROR)|"
    r"DCGM_FI_CUDA_GPU_VISIBLE_DEVICES|DCGM_FI_(?:FIRST|LAST)_(?:NVSWITCH|VGPU)_FIELD_ID|"
    r"DCGM_FI_INTERNAL_FIELDS_0_(?:START|END)|DCGM_FI_PROF_NVLINK_(?:TX|[TR]X_BYTES_PER_LINK)|"
    r"DCGM_FI_SYSTEM_(?:FIELD_UNKNOWN|GPU_AFFINITY|GPU_BIND_EVENT|GPU_SYNC_BOOST|NVLINK_TOPOLOGY|"
    r"PCI_TOPOLOGY|PROCESS_NAME)|DCGM_FI_UNKNOWN|"
    # names of DCGM 3 to 4.7
    r"DCGM_FI_DEV_(?:(?:NVSWITCH|CPU|CONNECTX|VGPU|NVLINK_PPRM|NVLINK_PPCNT)_[A-Z0-9_]+|(?:CPU|"
    r"MEM)_AFFINITY_[0-3]|MIG_MAX_SLICES|P2P_NVLINK_STATUS|PCI_(?:COMBINED|SUBSYS)_ID|"
    r"CUDA_VISIBLE_DEVICES_STR|CC_MODE|AUTOBOOST|(?:REQUESTED|ENFORCED|VALID)_POWER_PROFILE_MASK|"
    r"PCIE_[TR]X_THROUGHPUT|VIRTUAL_MODE|NVLINK_ERROR|GPU_NVLINK_ERRORS|"
    r"NVLINK_(?:TX_|RX_)?THROUGHPUT_PER_LINK|DIAG_[A-Z0-9_]+|(?:MEM_COPY|GPU)_UTIL_SAMPLES)|"
    r"DCGM_FI_PROF_(?:NVLINK_L\d\d?_[TR]X_BYTES|(?:HOSTMEM|PEERMEM)_CACHE_(?:HIT|MISS)|"
    r"[A-Z0-9_]+_CYCLES_[A-Z0-9_]+_TOTAL|PCIE_[A-Z0-9_]+_TOTAL)|DCGM_FI_IMEX_(?:DOMAIN|"
    r"DAEMON)_STATUS|DCGM_FI_BIND_UNBIND_EVENT|DCGM_FI_PROCESS_NAME"
)

# DCGM_FT_BINARY in dcgm_fields.cpp: structures that have no text.
BINARY = frozenset(
    (
        "DCGM_FI_GPU_TOPOLOGY_PCI",
        "DCGM_FI_GPU_TOPOLOGY_NVLINK",
        "DCGM_FI_GPU_TOPOLOGY_AFFINITY",
        "DCGM_FI_DEV_SUPPORTED_CLOCKS",
        "DCGM_FI_DEV_ACCOUNTING_DATA",
        "DCGM_FI_DEV_GRAPHICS_PIDS",
        "DCGM_FI_DEV_COMPUTE_PIDS",
        "DCGM_FI_DEV_SUPPORTED_TYPE_INFO",
        "DCGM_FI_DEV_CREATABLE_VGPU_TYPE_IDS",
        "DCGM_FI_DEV_VGPU_INSTANCE_IDS",
        "DCGM_FI_DEV_VGPU_UTILIZATIONS",
        "DCGM_FI_DEV_VGPU_PER_PROCESS_UTILIZATION",
        "DCGM_FI_DEV_ENC_STATS",
        "DCGM_FI_DEV_FBC_STATS",
        "DCGM_FI_DEV_FBC_SESSIONS_INFO",
        "DCGM_FI_DEV_VGPU_TYPE_INFO",
        "DCGM_FI_DEV_MIG_ATTRIBUTES",
        "DCGM_FI_DEV_MIG_GI_INFO",
        "DCGM_FI_DEV_MIG_CI_INFO",
        "DCGM_FI_SYNC_BOOST",
    )
)


def lane_rows() -> Iterator[tuple[Dcgm, str, int]]:
    """(row, column of an nvlink device or way of its traffic, number of the link)
    of every per-lane field.
    """
    for column, (firsts, old, new) in LANES.items():
        ids = [first + i for first, run in zip(firsts, _RUNS, strict=True) for i in range(run)]
        for link, number in enumerate(ids):
            yield (
                Dcgm(
                    number, f"{_DEV}NVLINK_{old.format(link)}", f"{_DEV}NVLINK_{new.format(link)}"
                ),
                column,
                link,
            )


@cache
def rows() -> dict[int, Dcgm]:
    """Every field we can show, by id: those of the catalogue, those worked out, and
    those of lanes and links.
    """
    known: dict[int, Dcgm] = {}
    for dcgm in (d for rows in (*(f.dcgm for f in FIELDS), *(f.dcgm for f in FACTS)) for d in rows):
        known.setdefault(dcgm.id, dcgm)
    known |= {dcgm.id: dcgm for dcgm in DERIVED}
    known |= {dcgm.id: dcgm for dcgm, _, _ in lane_rows()}
    known |= {number: Dcgm(number, name) for number, (name, _) in LINK_LEVEL.items()}
    return known


@cache
def ids() -> dict[str, int]:
    """Every name we know to the id it means; AMBIGUOUS is left to the caller."""
    names = {f"dcgm_{name}": number for name, number in _LEGACY.items()}
    for dcgm in rows().values():
        names[dcgm.name] = dcgm.id
        if dcgm.new_name:
            names.setdefault(dcgm.new_name, dcgm.id)
    return names | EXPORTER


def known_elsewhere(name: str) -> bool:
    """Whether DCGM has a field of this name that is not read here."""
    return name in BINARY or _ELSEWHERE.fullmatch(name) is not None


def can_show(number: int) -> bool:
    """Whether the renderer has a value for an id."""
    return number in rows() or (number in EXPORTER.values() and number not in UNAVAILABLE_EXPORTER)
