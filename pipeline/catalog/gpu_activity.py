"""What the GPU's units did between two samples (NVML GPM, Hopper and later), of a whole
GPU and of a MIG instance.
"""

from __future__ import annotations

from pipeline.catalog.fields import Dcgm, Field, Metric, Profile
from pipeline.catalog.gpu_rows import gauge

ACTIVITY = Metric(
    "tocsin_gpu_activity_ratio",
    "gauge",
    "Share of cycles in which the unit worked since the sample before, by unit.",
)
OCCUPANCY = Metric(
    "tocsin_gpu_sm_occupancy_ratio",
    "gauge",
    "Warps resident on the SMs as a share of the most that fit.",
)
ENGINE = Metric(
    "tocsin_gpu_engine_activity_ratio",
    "gauge",
    "Share of time in which a video engine worked, by engine.",
)
C2C_RATE = Metric(
    "tocsin_gpu_c2c_throughput_bytes_per_second",
    "gauge",
    "Chip-to-chip traffic since the sample before.",
)
SUPPORT = Metric(
    "tocsin_gpu_gpm_supported",
    "gauge",
    "1 where the GPU can sample the activity of its units (GPM).",
)

# Unit, GPM metric id (nvml.h, NVML_GPM_METRIC_*), profile, DCGM id, DCGM name and its 4.9
# name after DCGM_FI_PROF_.
_UNITS: tuple[tuple[str, int, Profile, int, str, str], ...] = (
    ("graphics", 1, "default", 1001, "GR_ENGINE_ACTIVE", "GR_ENGINE_UTIL_RATIO"),
    ("sm", 2, "default", 1002, "SM_ACTIVE", "SM_UTIL_RATIO"),
    ("sm_occupancy", 3, "default", 1003, "SM_OCCUPANCY", "SM_OCCUPANCY_RATIO"),
    ("integer", 4, "full", 1016, "PIPE_INT_ACTIVE", "INT_UTIL_RATIO"),
    ("tensor", 5, "default", 1004, "PIPE_TENSOR_ACTIVE", "TENSOR_UTIL_RATIO"),
    ("tensor_dfma", 6, "full", 1015, "PIPE_TENSOR_DFMA_ACTIVE", "DFMA_UTIL_RATIO"),
    ("tensor_hmma", 7, "full", 1014, "PIPE_TENSOR_HMMA_ACTIVE", "HMMA_UTIL_RATIO"),
    ("tensor_dmma", 8, "full", 0, "", ""),
    ("tensor_imma", 9, "full", 1013, "PIPE_TENSOR_IMMA_ACTIVE", "IMMA_UTIL_RATIO"),
    ("dram", 10, "default", 1005, "DRAM_ACTIVE", "DRAM_UTIL_RATIO"),
    ("fp64", 11, "full", 1006, "PIPE_FP64_ACTIVE", "FP64_UTIL_RATIO"),
    ("fp32", 12, "full", 1007, "PIPE_FP32_ACTIVE", "FP32_UTIL_RATIO"),
    ("fp16", 13, "full", 1008, "PIPE_FP16_ACTIVE", "FP16_UTIL_RATIO"),
)


def units(kind: str, first: int) -> tuple[Field, ...]:
    """Activity of the compute units of a GPU or MIG instance, in percent."""
    return tuple(
        gauge(
            first + i,
            f"{unit}_percent" if metric == 3 else f"{unit}_activity_percent",
            OCCUPANCY if metric == 3 else ACTIVITY,
            f"gpm {metric}",
            *(() if metric == 3 else (("unit", unit),)),
            kind=kind,
            per=100,
            profile=profile,
            dcgm=(Dcgm(dcgm, f"DCGM_FI_PROF_{old}", f"DCGM_FI_PROF_{new}", per=100, whole=False),)
            if dcgm
            else (),
        )
        for i, (unit, metric, profile, dcgm, old, new) in enumerate(_UNITS)
    )


# Video engines: name, how many, first GPM id, first DCGM id.
_ENGINES = (("nvdec", 8, 30, 1017), ("nvjpg", 8, 40, 1025), ("nvofa", 2, 50, 1033))
# Chip-to-chip: direction, what, GPM id, DCGM id.
_C2C = (
    ("transmit", "all", 100, 1076),
    ("transmit", "data", 102, 1077),
    ("receive", "all", 101, 1078),
    ("receive", "data", 103, 1079),
)

FIELDS: tuple[Field, ...] = (
    gauge(
        1300,
        "gpm_supported",
        SUPPORT,
        "nvmlGpmQueryDeviceSupport().isSupportedDevice",
        profile="full",
        dcgm=(Dcgm(94, "DCGM_FI_DEV_GPM_SUPPORT"),),
    ),
    *units("gpu", 1301),
    *(
        gauge(
            1320 + (metric - 30) + i,
            f"{engine}_{i}_activity_percent",
            ENGINE,
            f"gpm {metric + i}",
            ("engine", f"{engine}{i}"),
            per=100,
            profile="full",
            dcgm=(
                Dcgm(
                    dcgm + i,
                    f"DCGM_FI_PROF_{engine.upper()}{i}_ACTIVE",
                    f"DCGM_FI_PROF_{engine.upper()}_UTIL_{i}_RATIO",
                    per=100,
                    whole=False,
                ),
            ),
        )
        for engine, count, metric, dcgm in _ENGINES
        for i in range(count)
    ),
    *(
        gauge(
            1350 + i,
            f"c2c_{direction}_{what}_mebibytes_per_second",
            C2C_RATE,
            f"gpm {metric}",
            ("direction", direction),
            ("traffic", what),
            times=1 << 20,
            profile="full",
            dcgm=(
                Dcgm(
                    dcgm, f"DCGM_FI_PROF_C2C_{short[direction]}_{what.upper()}_BYTES", times=1 << 20
                ),
            ),
        )
        for short in ({"transmit": "TX", "receive": "RX"},)
        for i, (direction, what, metric, dcgm) in enumerate(_C2C)
    ),
)
