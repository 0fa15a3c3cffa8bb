"""Memory health of a GPU: ECC, row remapping, retired pages, SRAM, repair and recovery.

``read`` is explained in gpu.py.
"""

from __future__ import annotations

from itertools import product

from pipeline.catalog.fields import Dcgm, Field, Metric
from pipeline.catalog.gpu_rows import counter, gauge

ECC_MODE = Metric(
    "tocsin_gpu_ecc_mode", "gauge", "1 where ECC is on: now, or pending until a reset."
)
ECC = Metric(
    "tocsin_gpu_ecc_errors_total",
    "counter",
    (
        "ECC errors by type; volatile since the driver was loaded, aggregate over "
        "the life of the board."
    ),
)
ECC_LOCATION = Metric(
    "tocsin_gpu_ecc_location_errors_total",
    "counter",
    "ECC errors by type, counter and place in the GPU.",
)
REMAPPED = Metric(
    "tocsin_gpu_remapped_rows_total", "counter", "Memory rows replaced by spare ones, by cause."
)
REMAPPED_INACTIVE = Metric(
    "tocsin_gpu_remapped_rows_inactive",
    "gauge",
    "Row replacements that wait for a GPU reset, by cause.",
)
REMAP_PENDING = Metric(
    "tocsin_gpu_row_remap_pending", "gauge", "1 while a row replacement waits for a GPU reset."
)
REMAP_FAILED = Metric(
    "tocsin_gpu_row_remap_failed",
    "gauge",
    "1 once a row could not be replaced: candidate for return.",
)
REMAP_BANKS = Metric(
    "tocsin_gpu_row_remap_banks", "gauge", "Memory banks by the spare rows they have left."
)
RETIRED = Metric(
    "tocsin_gpu_retired_pages_total",
    "counter",
    "Memory pages taken out of use, by cause (before Ampere).",
)
RETIRED_PENDING = Metric(
    "tocsin_gpu_retired_pages_pending",
    "gauge",
    "1 while a page waits for a reboot to be taken out of use.",
)
SRAM_EXCEEDED = Metric(
    "tocsin_gpu_sram_ecc_threshold_exceeded",
    "gauge",
    "1 once SRAM has more uncorrectable errors than the vendor allows.",
)
SRAM = Metric(
    "tocsin_gpu_sram_ecc_errors_total",
    "counter",
    "SRAM errors by type: parity, sec_ded or corrected.",
)
SRAM_UNIT = Metric(
    "tocsin_gpu_sram_ecc_uncorrected_unit_errors_total",
    "counter",
    "Uncorrectable SRAM errors by unit of the GPU.",
)
UNREPAIRABLE = Metric(
    "tocsin_gpu_memory_unrepairable",
    "gauge",
    "1 once the memory has a fault that cannot be repaired.",
)
REPAIR_PENDING = Metric(
    "tocsin_gpu_repair_pending", "gauge", "1 while a repair waits for a GPU reset, by unit."
)
RECOVERY = Metric(
    "tocsin_gpu_recovery_action",
    "gauge",
    "1 for what the driver asks for to bring the GPU back, 0 for the others.",
    ("action",),
)
INFOROM_VALID = Metric(
    "tocsin_gpu_inforom_valid",
    "gauge",
    "1 while the checksums of the InfoROM are right, 0 once it is corrupt.",
)

# nvmlDeviceGpuRecoveryAction_t
RECOVERY_ACTIONS = (
    (0, "none"),
    (1, "gpu_reset"),
    (2, "node_reboot"),
    (3, "drain_p2p"),
    (4, "drain_and_reset"),
    (5, "recover_imex_domain"),
    (6, "bus_reset"),
    (7, "system_reboot"),
)

_TYPES = (("corrected", "SBE"), ("uncorrected", "DBE"))  # NVML error type 0 and 1
_COUNTERS = (("volatile", "VOL"), ("aggregate", "AGG"))  # NVML counter type 0 and 1

# Places by NVML memory location (nvmlMemoryLocation_t): our name, DCGM's, DCGM's first id for
# volatile and for aggregate, and the field ids of corrected and uncorrected, volatile then
# aggregate, where NVML has them (0 = getter only).
_LOCATIONS = (
    ("l1_cache", "L1", (314, 324), (7, 8, 18, 19)),
    ("l2_cache", "L2", (316, 326), (9, 10, 20, 21)),
    ("dram", "DEV", (318, 328), (11, 12, 22, 23)),
    ("register_file", "REG", (320, 330), (13, 14, 24, 25)),
    ("texture", "TEX", (322, 332), (15, 16, 26, 27)),
    ("shared_memory", "SHM", (334, 338), (0, 0, 0, 0)),
    ("cbu", "CBU", (336, 340), (0, 17, 0, 28)),
    ("sram", "SRM", (342, 344), (0, 0, 0, 0)),
)


def _by_location() -> tuple[Field, ...]:
    rows = []
    for (place, location), (c, counter_type), (t, error_type) in product(
        enumerate(_LOCATIONS), enumerate(_COUNTERS), enumerate(_TYPES)
    ):
        name, short, first, ids = location
        number = ids[2 * c + t]
        getter = f"nvmlDeviceGetMemoryErrorCounter({t}, {c}, {place})"
        rows.append(
            counter(
                1110 + 4 * place + 2 * c + t,
                f"ecc_{error_type[0]}_{counter_type[0]}_{name}",
                ECC_LOCATION,
                f"field {number} | {getter}" if number else getter,
                ("type", error_type[0]),
                ("counter", counter_type[0]),
                ("location", name),
                lifetime=counter_type[0] == "aggregate",
                profile="full",
                dcgm=(
                    Dcgm(
                        first[c] + t, f"DCGM_FI_DEV_ECC_{error_type[1]}_{counter_type[1]}_{short}"
                    ),
                ),
            )
        )
    return tuple(rows)


ECC_FIELDS: tuple[Field, ...] = (
    gauge(
        1100,
        "ecc_mode_current",
        ECC_MODE,
        "field 1 | nvmlDeviceGetEccMode()[0]",
        ("mode", "current"),
        dcgm=(Dcgm(300, "DCGM_FI_DEV_ECC_CURRENT", "DCGM_FI_DEV_ECC_MODE"),),
    ),
    gauge(
        1101,
        "ecc_mode_pending",
        ECC_MODE,
        "field 2 | nvmlDeviceGetEccMode()[1]",
        ("mode", "pending"),
        profile="full",
        dcgm=(Dcgm(301, "DCGM_FI_DEV_ECC_PENDING"),),
    ),
    *(
        counter(
            1102 + 2 * c + t,
            f"ecc_{error_type}_{counter_type}",
            ECC,
            f"field {3 + 2 * c + t} | nvmlDeviceGetTotalEccErrors({t}, {c})",
            ("type", error_type),
            ("counter", counter_type),
            lifetime=counter_type == "aggregate",
            dcgm=(Dcgm(310 + 2 * c + t, f"DCGM_FI_DEV_ECC_{kind}_{span}_TOTAL"),),
        )
        for c, (counter_type, span) in enumerate(_COUNTERS)
        for t, (error_type, kind) in enumerate(_TYPES)
    ),
    *_by_location(),
)


def _banks() -> tuple[Field, ...]:
    names = ("max", "high", "partial", "low", "none")
    return tuple(
        gauge(
            1160 + i,
            f"row_remap_banks_{spare}",
            REMAP_BANKS,
            f"nvmlDeviceGetRowRemapperHistogram().{spare}",
            ("spare", spare),
            dcgm=(
                Dcgm(
                    385 + i,
                    f"DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_{spare.upper()}",
                    f"DCGM_FI_DEV_BANK_REMAP_AVAIL_{spare.upper()}",
                ),
            ),
        )
        for i, spare in enumerate(names)
    )


REPAIRS: tuple[Field, ...] = (
    counter(
        1150,
        "remapped_rows_correctable",
        REMAPPED,
        "field 142 | nvmlDeviceGetRemappedRows()[0]",
        ("cause", "correctable"),
        lifetime=True,
        dcgm=(
            Dcgm(
                394,
                "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
                "DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL",
            ),
        ),
    ),
    counter(
        1151,
        "remapped_rows_uncorrectable",
        REMAPPED,
        "field 143 | nvmlDeviceGetRemappedRows()[1]",
        ("cause", "uncorrectable"),
        lifetime=True,
        dcgm=(
            Dcgm(
                393,
                "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
                "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL",
            ),
        ),
    ),
    gauge(
        1152,
        "row_remap_pending",
        REMAP_PENDING,
        "field 144 | nvmlDeviceGetRemappedRows()[2]",
        dcgm=(Dcgm(396, "DCGM_FI_DEV_ROW_REMAP_PENDING"),),
    ),
    gauge(
        1153,
        "row_remap_failed",
        REMAP_FAILED,
        "field 145 | nvmlDeviceGetRemappedRows()[3]",
        dcgm=(Dcgm(395, "DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_ROW_REMAP_FAILED"),),
    ),
    gauge(
        1154,
        "remapped_rows_correctable_inactive",
        REMAPPED_INACTIVE,
        "field 301",
        ("cause", "correctable"),
        profile="full",
    ),
    gauge(
        1155,
        "remapped_rows_uncorrectable_inactive",
        REMAPPED_INACTIVE,
        "field 302",
        ("cause", "uncorrectable"),
        profile="full",
    ),
    *_banks(),
    # nvmlPageRetirementCause_t: several single-bit errors 0, one double-bit error 1.
    counter(
        1170,
        "retired_pages_single_bit",
        RETIRED,
        "field 29 | nvmlDeviceGetRetiredPages(0).length",
        ("cause", "single_bit"),
        lifetime=True,
        dcgm=(Dcgm(390, "DCGM_FI_DEV_RETIRED_SBE", "DCGM_FI_DEV_PAGE_RETIRED_SBE_TOTAL"),),
    ),
    counter(
        1171,
        "retired_pages_double_bit",
        RETIRED,
        "field 30 | nvmlDeviceGetRetiredPages(1).length",
        ("cause", "double_bit"),
        lifetime=True,
        dcgm=(Dcgm(391, "DCGM_FI_DEV_RETIRED_DBE", "DCGM_FI_DEV_PAGE_RETIRED_DBE_TOTAL"),),
    ),
    gauge(
        1172,
        "retired_pages_pending",
        RETIRED_PENDING,
        "field 31 | nvmlDeviceGetRetiredPagesPendingStatus()",
        dcgm=(Dcgm(392, "DCGM_FI_DEV_RETIRED_PENDING", "DCGM_FI_DEV_PAGE_RETIRED_PENDING"),),
    ),
    gauge(
        1190,
        "memory_unrepairable",
        UNREPAIRABLE,
        "nvmlDeviceGetUnrepairableMemoryFlag_v1()",
        dcgm=(
            Dcgm(1507, "DCGM_FI_DEV_MEMORY_UNREPAIRABLE_FLAG", "DCGM_FI_DEV_MEMORY_UNREPAIRABLE"),
        ),
    ),
    gauge(
        1191,
        "repair_pending_memory_channel",
        REPAIR_PENDING,
        "nvmlDeviceGetRepairStatus()[0]",
        ("unit", "memory_channel"),
    ),
    gauge(
        1192,
        "repair_pending_tpc",
        REPAIR_PENDING,
        "nvmlDeviceGetRepairStatus()[1]",
        ("unit", "tpc"),
    ),
    gauge(
        1193,
        "recovery_action",
        RECOVERY,
        "field 230",
        states=RECOVERY_ACTIONS,
        dcgm=(
            Dcgm(1523, "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", "DCGM_FI_DEV_GPU_RECOVERY_ACTION"),
        ),
    ),
    gauge(
        1194,
        "inforom_valid",
        INFOROM_VALID,
        "nvmlDeviceValidateInforom() as valid",
        dcgm=(Dcgm(84, "DCGM_FI_DEV_INFOROM_CONFIG_VALID", "DCGM_FI_DEV_INFOROM_VALID"),),
    ),
)

_SRAM = "nvmlDeviceGetSramEccErrorStatus()"
_SRAM_COUNTS: tuple[tuple[int, str, Metric, str, tuple[tuple[str, str], ...]], ...] = (
    (
        1181,
        "parity_aggregate",
        SRAM,
        "aggregateUncParity",
        (("type", "parity"), ("counter", "aggregate")),
    ),
    (
        1182,
        "sec_ded_aggregate",
        SRAM,
        "aggregateUncSecDed",
        (("type", "sec_ded"), ("counter", "aggregate")),
    ),
    (
        1183,
        "corrected_aggregate",
        SRAM,
        "aggregateCor",
        (("type", "corrected"), ("counter", "aggregate")),
    ),
    (
        1184,
        "parity_volatile",
        SRAM,
        "volatileUncParity",
        (("type", "parity"), ("counter", "volatile")),
    ),
    (
        1185,
        "sec_ded_volatile",
        SRAM,
        "volatileUncSecDed",
        (("type", "sec_ded"), ("counter", "volatile")),
    ),
    (
        1186,
        "corrected_volatile",
        SRAM,
        "volatileCor",
        (("type", "corrected"), ("counter", "volatile")),
    ),
    (1195, "uncorrected_l2", SRAM_UNIT, "aggregateUncBucketL2", (("unit", "l2"),)),
    (1196, "uncorrected_sm", SRAM_UNIT, "aggregateUncBucketSm", (("unit", "sm"),)),
    (1197, "uncorrected_pcie", SRAM_UNIT, "aggregateUncBucketPcie", (("unit", "pcie"),)),
    (1198, "uncorrected_mcu", SRAM_UNIT, "aggregateUncBucketMcu", (("unit", "mcu"),)),
    (1199, "uncorrected_other", SRAM_UNIT, "aggregateUncBucketOther", (("unit", "other"),)),
)

SRAM_FIELDS: tuple[Field, ...] = (
    gauge(
        1180,
        "sram_threshold_exceeded",
        SRAM_EXCEEDED,
        f"{_SRAM}.bThresholdExceeded",
        dcgm=(Dcgm(346, "DCGM_FI_DEV_THRESHOLD_SRM", "DCGM_FI_DEV_SRAM_EXCEEDED"),),
    ),
    *(
        counter(
            number,
            f"sram_{name}",
            metric,
            f"{_SRAM}.{member}",
            *labels,
            lifetime="volatile" not in name,
            profile="full",
        )
        for number, name, metric, member, labels in _SRAM_COUNTS
    ),
)

FIELDS: tuple[Field, ...] = (*ECC_FIELDS, *REPAIRS, *SRAM_FIELDS)
