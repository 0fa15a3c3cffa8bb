"""The PCIe link of a GPU: what it runs at, what it moves, what goes wrong on it.

``read`` is explained in gpu.py.
"""

from __future__ import annotations

from pipeline.catalog.fields import Dcgm, Field, Metric, Profile
from pipeline.catalog.gpu_rows import counter, gauge

PCIE_GENERATION = Metric(
    "tocsin_gpu_pcie_link_generation",
    "gauge",
    "PCIe generation: now (an idle link slows down) and at most.",
)
PCIE_WIDTH = Metric("tocsin_gpu_pcie_link_width", "gauge", "PCIe lanes: now and at most.")
PCIE_REPLAYS = Metric("tocsin_gpu_pcie_replays_total", "counter", "PCIe packets sent again.")
PCIE_ROLLOVERS = Metric(
    "tocsin_gpu_pcie_replay_rollovers_total",
    "counter",
    "Times the PCIe replay counter of the link rolled over.",
)
PCIE_RECOVERIES = Metric(
    "tocsin_gpu_pcie_recoveries_total", "counter", "Times the PCIe link left L0 for recovery."
)
PCIE_CORRECTABLE = Metric(
    "tocsin_gpu_pcie_correctable_errors_total", "counter", "Correctable PCIe errors of all kinds."
)
PCIE_ERRORS = Metric("tocsin_gpu_pcie_errors_total", "counter", "PCIe errors by kind.")
PCIE_BYTES = Metric(
    "tocsin_gpu_pcie_bytes_total",
    "counter",
    "Bytes over PCIe, by direction seen from the GPU; the counter may wrap.",
)
PCIE_RATE = Metric(
    "tocsin_gpu_pcie_throughput_bytes_per_second",
    "gauge",
    "PCIe traffic between this sample and the last, by direction.",
)
PCIE_SAMPLE = Metric(
    "tocsin_gpu_pcie_sampled_bytes_per_second",
    "gauge",
    "PCIe traffic in a sample of 20 ms, by direction.",
)

MAX_BYTES_PER_S = 128_000_000_000  # bytes per second: PCIe 6 x16, each way (PCI-SIG)

# Current and maximum, of generation and width: metric, name, end, getter, DCGM row.
_PCIE_LINK = (
    (
        PCIE_GENERATION,
        "generation",
        "current",
        "CurrPcieLinkGeneration",
        Dcgm(237, "DCGM_FI_DEV_PCIE_LINK_GEN"),
    ),
    (
        PCIE_GENERATION,
        "generation",
        "maximum",
        "MaxPcieLinkGeneration",
        Dcgm(235, "DCGM_FI_DEV_PCIE_MAX_LINK_GEN"),
    ),
    (PCIE_WIDTH, "width", "current", "CurrPcieLinkWidth", Dcgm(238, "DCGM_FI_DEV_PCIE_LINK_WIDTH")),
    (
        PCIE_WIDTH,
        "width",
        "maximum",
        "MaxPcieLinkWidth",
        Dcgm(236, "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH"),
    ),
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

FIELDS: tuple[Field, ...] = (
    *(
        gauge(
            1200 + i,
            f"pcie_{what}_{end}",
            metric,
            f"nvmlDeviceGet{getter}()",
            ("link", end),
            dcgm=(dcgm,),
        )
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
        dcgm=(
            Dcgm(
                1501,
                "DCGM_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS",
                "DCGM_FI_DEV_PCIE_CORRECTABLE_ERROR_TOTAL",
            ),
        ),
    ),
    *(
        counter(
            1210 + i,
            f"pcie_{kind}_errors",
            PCIE_ERRORS,
            f"field {174 + i}",
            ("kind", kind),
            profile=profile,
        )
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
            most=MAX_BYTES_PER_S,
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
