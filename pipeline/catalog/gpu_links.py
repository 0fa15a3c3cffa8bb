"""What ties a GPU to the rest: PCIe, NVLink totals, fabric, chip-to-chip. ``read`` is explained in gpu.py."""

from __future__ import annotations

from pipeline.catalog.fields import Dcgm, Field, Metric, Profile
from pipeline.catalog.gpu_rows import ALL_LINKS, counter, gauge

PCIE_GENERATION = Metric(
    "tocsin_gpu_pcie_link_generation", "gauge", "PCIe generation: now (an idle link slows down) and at most."
)
PCIE_WIDTH = Metric("tocsin_gpu_pcie_link_width", "gauge", "PCIe lanes: now and at most.")
PCIE_REPLAYS = Metric("tocsin_gpu_pcie_replays_total", "counter", "PCIe packets sent again.")
PCIE_ROLLOVERS = Metric(
    "tocsin_gpu_pcie_replay_rollovers_total", "counter", "Times the PCIe replay counter of the link rolled over."
)
PCIE_RECOVERIES = Metric("tocsin_gpu_pcie_recoveries_total", "counter", "Times the PCIe link left L0 for recovery.")
PCIE_CORRECTABLE = Metric("tocsin_gpu_pcie_correctable_errors_total", "counter", "Correctable PCIe errors of all kinds.")
PCIE_ERRORS = Metric("tocsin_gpu_pcie_errors_total", "counter", "PCIe errors by kind.")
PCIE_BYTES = Metric(
    "tocsin_gpu_pcie_bytes_total", "counter", "Bytes over PCIe, by direction seen from the GPU; the counter may wrap."
)
PCIE_RATE = Metric(
    "tocsin_gpu_pcie_throughput_bytes_per_second", "gauge", "PCIe traffic between this sample and the last, by direction."
)
PCIE_SAMPLE = Metric("tocsin_gpu_pcie_sampled_bytes_per_second", "gauge", "PCIe traffic in a sample of 20 ms, by direction.")
NVLINKS = Metric("tocsin_gpu_nvlinks", "gauge", "NVLinks of the GPU by state.")
NVLINK_ERRORS = Metric("tocsin_gpu_nvlink_errors_total", "counter", "NVLink errors over all links, by kind.")
NVLINK_BYTES = Metric("tocsin_gpu_nvlink_bytes_total", "counter", "Bytes over all NVLinks without protocol, by direction.")
NVLINK_RAW_BYTES = Metric("tocsin_gpu_nvlink_raw_bytes_total", "counter", "Bytes over all NVLinks with protocol, by direction.")
NVLINK_DATA_LINK = Metric(
    "tocsin_gpu_nvlink_data_link_errors_total", "counter", "NVLink data-link errors, by kind (before Blackwell)."
)
NVLINK_RATE = Metric("tocsin_gpu_nvlink_throughput_bytes_per_second", "gauge", "NVLink traffic between this sample and the last.")
FABRIC_STATE = Metric(
    "tocsin_gpu_fabric_state", "gauge", "1 for the state of joining the NVLink fabric, 0 for the others.", ("state",)
)
FABRIC_HEALTH = Metric(
    "tocsin_gpu_fabric_health", "gauge", "1 for the health summary of the NVLink fabric, 0 for the others.", ("health",)
)
FABRIC_ERROR = Metric("tocsin_gpu_fabric_error_code", "gauge", "NVML return code of joining the NVLink fabric, 0 is success.")
FABRIC_MASK = Metric(
    "tocsin_gpu_fabric_health_mask", "gauge", "Bit mask of the NVLink fabric's health (NVML_GPU_FABRIC_HEALTH_MASK)."
)
FABRIC_CLIQUE = Metric("tocsin_gpu_fabric_clique", "gauge", "Number of the fabric clique the GPU belongs to.")
C2C_LINKS = Metric("tocsin_gpu_c2c_links", "gauge", "Chip-to-chip links of the GPU.")
C2C_STATUS = Metric("tocsin_gpu_c2c_link_up", "gauge", "1 while the chip-to-chip link is active.")
C2C_MAXIMUM = Metric("tocsin_gpu_c2c_maximum_bytes_per_second", "gauge", "Largest bandwidth of the chip-to-chip link.")
C2C_ERRORS = Metric("tocsin_gpu_c2c_errors_total", "counter", "Chip-to-chip link errors by kind.")
C2C_POWER = Metric("tocsin_gpu_c2c_power_state", "gauge", "Power state of the chip-to-chip link: 0 full, 1 low.")

_DEV = "DCGM_FI_DEV_"
# PCIe 6 x16 moves 128 GB/s each way (PCI-SIG); NVLink 5 0.9 TB/s each way over 18 links (NVIDIA Blackwell brief).
PCIE_MOST = 128_000_000_000
NVLINK_MOST = 1_800_000_000_000


# Current and maximum, of generation and width: metric, name, end, getter, DCGM row.
_PCIE_LINK = (
    (PCIE_GENERATION, "generation", "current", "CurrPcieLinkGeneration", Dcgm(237, "DCGM_FI_DEV_PCIE_LINK_GEN")),
    (PCIE_GENERATION, "generation", "maximum", "MaxPcieLinkGeneration", Dcgm(235, "DCGM_FI_DEV_PCIE_MAX_LINK_GEN")),
    (PCIE_WIDTH, "width", "current", "CurrPcieLinkWidth", Dcgm(238, "DCGM_FI_DEV_PCIE_LINK_WIDTH")),
    (PCIE_WIDTH, "width", "maximum", "MaxPcieLinkWidth", Dcgm(236, "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH")),
)

# Kinds 174 to 183 of nvml.h, NVML_FI_DEV_PCIE_COUNT_*.
_PCIE_KINDS: tuple[tuple[str, Profile], ...] = (
    ("nak_received", "full"),
    ("receiver", "full"),
    ("bad_tlp", "full"),
    ("nak_sent", "full"),
    ("bad_dllp", "full"),
    ("non_fatal", "default"),
    ("fatal", "default"),
    ("unsupported_request", "full"),
    ("lcrc", "full"),
    ("lane", "full"),
)

PCIE: tuple[Field, ...] = (
    *(
        gauge(1200 + i, f"pcie_{what}_{end}", metric, f"nvmlDeviceGet{getter}()", ("link", end), dcgm=(dcgm,))
        for i, (metric, what, end, getter, dcgm) in enumerate(_PCIE_LINK)
    ),
    counter(
        1204,
        "pcie_replays",
        PCIE_REPLAYS,
        "field 94 | nvmlDeviceGetPcieReplayCounter()",
        dcgm=(Dcgm(202, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "DCGM_FI_DEV_PCIE_REPLAY_TOTAL"),),
    ),
    counter(1205, "pcie_replay_rollovers", PCIE_ROLLOVERS, "field 95", profile="full"),
    counter(1206, "pcie_recoveries", PCIE_RECOVERIES, "field 169"),
    counter(
        1207,
        "pcie_correctable_errors",
        PCIE_CORRECTABLE,
        "field 173",
        dcgm=(Dcgm(1501, "DCGM_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS", "DCGM_FI_DEV_PCIE_CORRECTABLE_ERROR_TOTAL"),),
    ),
    *(
        counter(1210 + i, f"pcie_{kind}_errors", PCIE_ERRORS, f"field {174 + i}", ("kind", kind), profile=profile)
        for i, (kind, profile) in enumerate(_PCIE_KINDS)
    ),
    *(
        counter(
            1220 + i,
            f"pcie_{direction}_bytes",
            PCIE_BYTES,
            f"field {197 + i}",
            ("direction", direction),
            overflow="wraps",
            most=PCIE_MOST,
        )
        for i, direction in enumerate(("transmit", "receive"))
    ),
    *(
        gauge(
            1222 + i,
            f"pcie_{direction}_mebibytes_per_second",
            PCIE_RATE,
            f"gpm {20 + i}",
            ("direction", direction),
            times=1 << 20,
            profile="full",
            dcgm=(Dcgm(1009 + i, f"DCGM_FI_PROF_PCIE_{short}_BYTES", times=1 << 20),),
        )
        for i, (direction, short) in enumerate((("transmit", "TX"), ("receive", "RX")))
    ),
    # nvmlPcieUtilCounter_t: TX 0, RX 1; in KB/s.
    *(
        gauge(
            1224 + i,
            f"pcie_sampled_{direction}_kilobytes_per_second",
            PCIE_SAMPLE,
            f"nvmlDeviceGetPcieThroughput({i})",
            ("direction", direction),
            times=1000,
            profile="full",
        )
        for i, direction in enumerate(("transmit", "receive"))
    ),
)

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
    # DCGM's field 170 also tells a failed join apart, by state and status together: the dialect derives it.
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
        dcgm=(Dcgm(171, "DCGM_FI_DEV_FABRIC_MANAGER_ERROR_CODE", "DCGM_FI_DEV_FABRIC_MANAGER_ERROR"),),
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
    gauge(1271, "c2c_link_up", C2C_STATUS, "field 171", dcgm=(Dcgm(286, "DCGM_FI_DEV_C2C_LINK_STATUS"),)),
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
                ("replay_back_to_back", "C2C_LINK_ERROR_REPLAY_B2B", "C2C_LINK_REPLAY_ERROR_B2B_TOTAL"),
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

FIELDS: tuple[Field, ...] = (*PCIE, *NVLINK, *FABRIC, *C2C)
