"""What ties a GPU to other chips: NVLink totals, fabric, chip-to-chip.

``read`` is explained in gpu.py.
"""

from __future__ import annotations

from pipeline.catalog.fields import Dcgm, Field, Metric
from pipeline.catalog.gpu_rows import ALL_LINKS, counter, gauge

NVLINKS = Metric("tocsin_gpu_nvlinks", "gauge", "NVLinks of the GPU by state.")
NVLINK_ERRORS = Metric(
    "tocsin_gpu_nvlink_errors_total", "counter", "NVLink errors over all links, by kind."
)
NVLINK_BYTES = Metric(
    "tocsin_gpu_nvlink_bytes_total",
    "counter",
    "Bytes over all NVLinks without protocol, by direction.",
)
NVLINK_RAW_BYTES = Metric(
    "tocsin_gpu_nvlink_raw_bytes_total",
    "counter",
    "Bytes over all NVLinks with protocol, by direction.",
)
NVLINK_DATA_LINK = Metric(
    "tocsin_gpu_nvlink_data_link_errors_total",
    "counter",
    "NVLink data-link errors, by kind (before Blackwell).",
)
NVLINK_RATE = Metric(
    "tocsin_gpu_nvlink_throughput_bytes_per_second",
    "gauge",
    "NVLink traffic between this sample and the last.",
)
FABRIC_STATE = Metric(
    "tocsin_gpu_fabric_state",
    "gauge",
    "1 for the state of joining the NVLink fabric, 0 for the others.",
    ("state",),
)
FABRIC_HEALTH = Metric(
    "tocsin_gpu_fabric_health",
    "gauge",
    "1 for the health summary of the NVLink fabric, 0 for the others.",
    ("health",),
)
FABRIC_ERROR = Metric(
    "tocsin_gpu_fabric_error_code",
    "gauge",
    "NVML return code of joining the NVLink fabric, 0 is success.",
)
FABRIC_MASK = Metric(
    "tocsin_gpu_fabric_health_mask",
    "gauge",
    "Bit mask of the NVLink fabric's health (NVML_GPU_FABRIC_HEALTH_MASK).",
)
FABRIC_CLIQUE = Metric(
    "tocsin_gpu_fabric_clique", "gauge", "Number of the fabric clique the GPU belongs to."
)
C2C_LINKS = Metric("tocsin_gpu_c2c_links", "gauge", "Chip-to-chip links of the GPU.")
C2C_STATUS = Metric("tocsin_gpu_c2c_link_up", "gauge", "1 while the chip-to-chip link is active.")
C2C_MAXIMUM = Metric(
    "tocsin_gpu_c2c_maximum_bytes_per_second",
    "gauge",
    "Largest bandwidth of the chip-to-chip link.",
)
C2C_ERRORS = Metric("tocsin_gpu_c2c_errors_total", "counter", "Chip-to-chip link errors by kind.")
C2C_POWER = Metric(
    "tocsin_gpu_c2c_power_state", "gauge", "Power state of the chip-to-chip link: 0 full, 1 low."
)

_DEV = "DCGM_FI_DEV_"
# NVLink 5 moves 0.9 TB/s each way over 18 links (NVIDIA Blackwell brief); twice
# that is above any part sold.
NVLINK_MOST = 1_800_000_000_000


_NVLINK_KINDS = (
    ("crc_flit", 38, 409, "NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "NVLINK_CRC_FLIT_ERROR_TOTAL"),
    ("crc_data", 45, 419, "NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "NVLINK_CRC_DATA_ERROR_TOTAL"),
    ("replay", 52, 429, "NVLINK_REPLAY_ERROR_COUNT_TOTAL", "NVLINK_REPLAY_ERROR_TOTAL"),
    ("recovery", 59, 439, "NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "NVLINK_RECOVERY_ERROR_TOTAL"),
    ("ecc_data", 160, 1220, "NVLINK_ECC_DATA_ERROR_COUNT_TOTAL", "NVLINK_ECC_ERROR_TOTAL"),
)
_DATA_LINK_KINDS = (
    ("replay", 161, 499, "NVLINK_ERROR_DL_REPLAY", "NVLINK_REPLAY_TOTAL"),
    ("recovery", 162, 498, "NVLINK_ERROR_DL_RECOVERY", "NVLINK_RECOVERY_TOTAL"),
    ("crc", 163, 497, "NVLINK_ERROR_DL_CRC", "NVLINK_CRC_ERROR_TOTAL"),
)
_BYTES = (
    (1250, "nvlink_transmit_kibibytes", NVLINK_BYTES, 138, "transmit"),
    (1251, "nvlink_receive_kibibytes", NVLINK_BYTES, 139, "receive"),
    (1252, "nvlink_raw_transmit_kibibytes", NVLINK_RAW_BYTES, 140, "transmit"),
    (1253, "nvlink_raw_receive_kibibytes", NVLINK_RAW_BYTES, 141, "receive"),
)

NVLINK: tuple[Field, ...] = (
    gauge(1230, "nvlinks_up", NVLINKS, "source", ("state", "up")),
    gauge(1231, "nvlinks_down", NVLINKS, "source", ("state", "down")),
    *(
        counter(
            1232 + i,
            f"nvlink_{kind}_errors",
            NVLINK_ERRORS,
            f"field {field}",
            ("kind", kind),
            dcgm=(Dcgm(dcgm, _DEV + old, _DEV + new),),
        )
        for i, (kind, field, dcgm, old, new) in enumerate(_NVLINK_KINDS)
    ),
    *(
        counter(
            1240 + i,
            f"nvlink_data_link_{kind}_errors",
            NVLINK_DATA_LINK,
            f"field {field}",
            ("kind", kind),
            profile="full",
            dcgm=(Dcgm(dcgm, _DEV + old, _DEV + new),),
        )
        for i, (kind, field, dcgm, old, new) in enumerate(_DATA_LINK_KINDS)
    ),
    *(
        counter(
            number,
            name,
            metric,
            f"field {field} scope {ALL_LINKS}",
            ("direction", direction),
            times=1024,
            most=NVLINK_MOST / 1024,
            profile="default" if metric is NVLINK_BYTES else "full",
        )
        for number, name, metric, field, direction in _BYTES
    ),
    *(
        gauge(
            1254 + i,
            f"nvlink_{direction}_mebibytes_per_second",
            NVLINK_RATE,
            f"gpm {61 - i}",
            ("direction", direction),
            times=1 << 20,
            profile="full",
            dcgm=(Dcgm(1011 + i, f"DCGM_FI_PROF_NVLINK_{short}_BYTES", times=1 << 20),),
        )
        for i, (direction, short) in enumerate((("transmit", "TX"), ("receive", "RX")))
    ),
)

_FABRIC = "nvmlDeviceGetGpuFabricInfoV()"
FABRIC: tuple[Field, ...] = (
    # DCGM's field 170 also distinguishes a failed join, by state and status
    # together: the dialect derives it.
    gauge(
        1260,
        "fabric_state",
        FABRIC_STATE,
        f"{_FABRIC}.state",
        states=((0, "not_supported"), (1, "not_started"), (2, "in_progress"), (3, "completed")),
        profile="full",
    ),
    gauge(
        1261,
        "fabric_error_code",
        FABRIC_ERROR,
        f"{_FABRIC}.status",
        profile="full",
        dcgm=(
            Dcgm(171, "DCGM_FI_DEV_FABRIC_MANAGER_ERROR_CODE", "DCGM_FI_DEV_FABRIC_MANAGER_ERROR"),
        ),
    ),
    gauge(
        1262,
        "fabric_clique",
        FABRIC_CLIQUE,
        f"{_FABRIC}.cliqueId",
        profile="full",
        dcgm=(Dcgm(173, "DCGM_FI_DEV_FABRIC_CLIQUE_ID"),),
    ),
    gauge(
        1263,
        "fabric_health_mask",
        FABRIC_MASK,
        f"{_FABRIC}.healthMask",
        profile="full",
        dcgm=(Dcgm(174, "DCGM_FI_DEV_FABRIC_HEALTH_MASK"),),
    ),
    gauge(
        1264,
        "fabric_health",
        FABRIC_HEALTH,
        f"{_FABRIC}.healthSummary",
        profile="full",
        states=((0, "not_supported"), (1, "healthy"), (2, "unhealthy"), (3, "limited_capacity")),
        dcgm=(Dcgm(175, "DCGM_FI_DEV_FABRIC_HEALTH_SUMMARY"),),
    ),
)

C2C: tuple[Field, ...] = (
    gauge(
        1270,
        "c2c_links",
        C2C_LINKS,
        "field 170",
        dcgm=(Dcgm(285, "DCGM_FI_DEV_C2C_LINK_COUNT", "DCGM_FI_DEV_C2C_LINK_QUANTITY"),),
    ),
    gauge(
        1271,
        "c2c_link_up",
        C2C_STATUS,
        "field 171",
        dcgm=(Dcgm(286, "DCGM_FI_DEV_C2C_LINK_STATUS"),),
    ),
    gauge(
        1272,
        "c2c_maximum_megabytes_per_second",
        C2C_MAXIMUM,
        "field 172",
        times=1_000_000,
        profile="full",
        dcgm=(Dcgm(287, "DCGM_FI_DEV_C2C_MAX_BANDWIDTH"),),
    ),
    *(
        counter(
            1273 + i,
            f"c2c_{kind}_errors",
            C2C_ERRORS,
            f"field {231 + i}",
            ("kind", kind),
            dcgm=(Dcgm(1400 + i, _DEV + old, _DEV + new),),
        )
        for i, (kind, old, new) in enumerate(
            (
                ("interrupt", "C2C_LINK_ERROR_INTR", "C2C_LINK_ERROR_TOTAL"),
                ("replay", "C2C_LINK_ERROR_REPLAY", "C2C_LINK_REPLAY_ERROR_TOTAL"),
                (
                    "replay_back_to_back",
                    "C2C_LINK_ERROR_REPLAY_B2B",
                    "C2C_LINK_REPLAY_ERROR_B2B_TOTAL",
                ),
            )
        )
    ),
    gauge(
        1276,
        "c2c_power_state",
        C2C_POWER,
        "field 234",
        profile="full",
        dcgm=(Dcgm(1403, "DCGM_FI_DEV_C2C_LINK_POWER_STATE", "DCGM_FI_DEV_C2C_LINK_POWER_STATUS"),),
    ),
)

FIELDS: tuple[Field, ...] = (*NVLINK, *FABRIC, *C2C)
