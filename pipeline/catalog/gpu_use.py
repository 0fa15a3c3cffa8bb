"""How much of a GPU is in use: state, utilisation, memory, processes, clocks.

``read`` is explained in gpu.py.
"""

from __future__ import annotations

from pipeline.catalog.fields import Dcgm, Field, Metric, Profile
from pipeline.catalog.gpu_rows import gauge, renewed
from pipeline.gpu_state import GPU_STATES

STATE = Metric(
    "tocsin_gpu_state", "gauge", "1 for the state the GPU is in, 0 for the others.", ("state",)
)
UTILIZATION = Metric(
    "tocsin_gpu_utilization_ratio",
    "gauge",
    "Share of time in which the engine was in use, by engine.",
)
MEMORY = Metric(
    "tocsin_gpu_memory_bytes",
    "gauge",
    "Device memory by use: total, free, used or reserved by the driver.",
)
BAR1 = Metric(
    "tocsin_gpu_bar1_memory_bytes",
    "gauge",
    "BAR1 window onto the device memory: total, free or used.",
)
CLOCK = Metric("tocsin_gpu_clock_hertz", "gauge", "Clock as it runs now, by domain.")
CLOCK_APPLICATION = Metric(
    "tocsin_gpu_clock_application_hertz", "gauge", "Clock that applications ask for, by domain."
)
CLOCK_MAXIMUM = Metric(
    "tocsin_gpu_clock_maximum_hertz", "gauge", "Highest clock the GPU allows, by domain."
)
PROCESSES = Metric("tocsin_gpu_processes", "gauge", "Processes that hold the GPU, by type.")

_MHZ = 1_000_000
_MIB = 1 << 20

USE: tuple[Field, ...] = (
    gauge(1001, "state", STATE, "source", profile="minimal", states=GPU_STATES),
    gauge(
        1002,
        "gpu_utilization_percent",
        UTILIZATION,
        "nvmlDeviceGetUtilizationRates().gpu",
        ("engine", "gpu"),
        per=100,
        profile="minimal",
        dcgm=renewed(
            203, "DCGM_FI_DEV_GPU_UTIL", 1613, "DCGM_FI_DEV_GPU_UTIL_RATIO", ((1, 1), (1, 100))
        ),
    ),
    gauge(
        1003,
        "memory_utilization_percent",
        UTILIZATION,
        "nvmlDeviceGetUtilizationRates().memory",
        ("engine", "memory"),
        per=100,
        dcgm=renewed(
            204,
            "DCGM_FI_DEV_MEM_COPY_UTIL",
            1614,
            "DCGM_FI_DEV_MEMORY_UTIL_RATIO",
            ((1, 1), (1, 100)),
        ),
    ),
    gauge(
        1004,
        "encoder_utilization_percent",
        UTILIZATION,
        "nvmlDeviceGetEncoderUtilization()[0]",
        ("engine", "encoder"),
        per=100,
        dcgm=renewed(
            206, "DCGM_FI_DEV_ENC_UTIL", 1615, "DCGM_FI_DEV_ENC_UTIL_RATIO", ((1, 1), (1, 100))
        ),
    ),
    gauge(
        1005,
        "decoder_utilization_percent",
        UTILIZATION,
        "nvmlDeviceGetDecoderUtilization()[0]",
        ("engine", "decoder"),
        per=100,
        dcgm=renewed(
            207, "DCGM_FI_DEV_DEC_UTIL", 1616, "DCGM_FI_DEV_DEC_UTIL_RATIO", ((1, 1), (1, 100))
        ),
    ),
    gauge(
        1006,
        "jpeg_utilization_percent",
        UTILIZATION,
        "nvmlDeviceGetJpgUtilization()[0]",
        ("engine", "jpeg"),
        per=100,
        profile="full",
    ),
    gauge(
        1007,
        "optical_flow_utilization_percent",
        UTILIZATION,
        "nvmlDeviceGetOfaUtilization()[0]",
        ("engine", "ofa"),
        per=100,
        profile="full",
    ),
    gauge(
        1008,
        "compute_processes",
        PROCESSES,
        (
            "nvmlDeviceGetComputeRunningProcesses_v3().length | "
            "nvmlDeviceGetComputeRunningProcesses_v2().length"
        ),
        ("type", "compute"),
    ),
    gauge(
        1009,
        "graphics_processes",
        PROCESSES,
        (
            "nvmlDeviceGetGraphicsRunningProcesses_v3().length | "
            "nvmlDeviceGetGraphicsRunningProcesses_v2().length"
        ),
        ("type", "graphics"),
        profile="full",
    ),
)

# nvmlMemory_v2 (nvml.h); drivers before 510 have the first version only, whose "used"
# includes what is reserved.
_MEMORY_2 = "nvmlDeviceGetMemoryInfo(33554472)"


def memory(kind: str, first: int) -> tuple[Field, ...]:
    """Framebuffer and BAR1 of a GPU or MIG instance."""
    v1 = "nvmlDeviceGetMemoryInfo()"
    bar1 = "nvmlDeviceGetBAR1MemoryInfo()"
    return (
        gauge(
            first,
            "memory_total_bytes",
            MEMORY,
            f"{_MEMORY_2}.total | {v1}.total",
            ("use", "total"),
            kind=kind,
            dcgm=renewed(
                250,
                "DCGM_FI_DEV_FB_TOTAL",
                1625,
                "DCGM_FI_DEV_FB_CAPACITY_BYTES",
                ((1, _MIB), (1, 1)),
            ),
        ),
        gauge(
            first + 1,
            "memory_free_bytes",
            MEMORY,
            f"{_MEMORY_2}.free | {v1}.free",
            ("use", "free"),
            kind=kind,
            dcgm=renewed(
                251, "DCGM_FI_DEV_FB_FREE", 1626, "DCGM_FI_DEV_FB_FREE_BYTES", ((1, _MIB), (1, 1))
            ),
        ),
        gauge(
            first + 2,
            "memory_used_bytes",
            MEMORY,
            f"{_MEMORY_2}.used | {v1}.used",
            ("use", "used"),
            kind=kind,
            profile="minimal",
            dcgm=renewed(
                252, "DCGM_FI_DEV_FB_USED", 1627, "DCGM_FI_DEV_FB_USED_BYTES", ((1, _MIB), (1, 1))
            ),
        ),
        gauge(
            first + 3,
            "memory_reserved_bytes",
            MEMORY,
            f"{_MEMORY_2}.reserved",
            ("use", "reserved"),
            kind=kind,
            dcgm=renewed(
                253,
                "DCGM_FI_DEV_FB_RESERVED",
                1628,
                "DCGM_FI_DEV_FB_RESERVED_BYTES",
                ((1, _MIB), (1, 1)),
            ),
        ),
        gauge(
            first + 4,
            "bar1_total_bytes",
            BAR1,
            f"{bar1}.bar1Total",
            ("use", "total"),
            kind=kind,
            profile="full",
            dcgm=renewed(
                90,
                "DCGM_FI_DEV_BAR1_TOTAL",
                1600,
                "DCGM_FI_DEV_BAR1_CAPACITY_BYTES",
                ((1, _MIB), (1, 1)),
            ),
        ),
        gauge(
            first + 5,
            "bar1_free_bytes",
            BAR1,
            f"{bar1}.bar1Free",
            ("use", "free"),
            kind=kind,
            profile="full",
            dcgm=renewed(
                93,
                "DCGM_FI_DEV_BAR1_FREE",
                1602,
                "DCGM_FI_DEV_BAR1_FREE_BYTES",
                ((1, _MIB), (1, 1)),
            ),
        ),
        gauge(
            first + 6,
            "bar1_used_bytes",
            BAR1,
            f"{bar1}.bar1Used",
            ("use", "used"),
            kind=kind,
            profile="full",
            dcgm=renewed(
                92,
                "DCGM_FI_DEV_BAR1_USED",
                1601,
                "DCGM_FI_DEV_BAR1_USED_BYTES",
                ((1, _MIB), (1, 1)),
            ),
        ),
    )


_HERTZ = ((1, 1), (_MHZ, 1))
_CLOCK_ROWS: tuple[tuple[int, str, Metric, str, str, Profile, tuple[Dcgm, ...]], ...] = (
    (
        1050,
        "sm_clock",
        CLOCK,
        "nvmlDeviceGetClockInfo(1)",
        "sm",
        "default",
        renewed(100, "DCGM_FI_DEV_SM_CLOCK", 1603, "DCGM_FI_DEV_SM_CLOCK_HERTZ", _HERTZ),
    ),
    (
        1051,
        "memory_clock",
        CLOCK,
        "nvmlDeviceGetClockInfo(2)",
        "memory",
        "default",
        renewed(101, "DCGM_FI_DEV_MEM_CLOCK", 1604, "DCGM_FI_DEV_MEMORY_CLOCK_HERTZ", _HERTZ),
    ),
    (
        1052,
        "video_clock",
        CLOCK,
        "nvmlDeviceGetClockInfo(3)",
        "video",
        "full",
        renewed(102, "DCGM_FI_DEV_VIDEO_CLOCK", 1605, "DCGM_FI_DEV_VIDEO_CLOCK_HERTZ", _HERTZ),
    ),
    (1053, "graphics_clock", CLOCK, "nvmlDeviceGetClockInfo(0)", "graphics", "full", ()),
    (
        1054,
        "sm_application_clock",
        CLOCK_APPLICATION,
        "nvmlDeviceGetApplicationsClock(0)",
        "sm",
        "full",
        renewed(110, "DCGM_FI_DEV_APP_SM_CLOCK", 1606, "DCGM_FI_DEV_SM_APP_CLOCK_HERTZ", _HERTZ),
    ),
    (
        1055,
        "memory_application_clock",
        CLOCK_APPLICATION,
        "nvmlDeviceGetApplicationsClock(2)",
        "memory",
        "full",
        renewed(
            111, "DCGM_FI_DEV_APP_MEM_CLOCK", 1607, "DCGM_FI_DEV_MEMORY_APP_CLOCK_HERTZ", _HERTZ
        ),
    ),
    (
        1056,
        "sm_maximum_clock",
        CLOCK_MAXIMUM,
        "nvmlDeviceGetMaxClockInfo(1)",
        "sm",
        "default",
        renewed(113, "DCGM_FI_DEV_MAX_SM_CLOCK", 1608, "DCGM_FI_DEV_SM_MAX_CLOCK_HERTZ", _HERTZ),
    ),
    (
        1057,
        "memory_maximum_clock",
        CLOCK_MAXIMUM,
        "nvmlDeviceGetMaxClockInfo(2)",
        "memory",
        "full",
        renewed(
            114, "DCGM_FI_DEV_MAX_MEM_CLOCK", 1609, "DCGM_FI_DEV_MEMORY_MAX_CLOCK_HERTZ", _HERTZ
        ),
    ),
    (
        1058,
        "video_maximum_clock",
        CLOCK_MAXIMUM,
        "nvmlDeviceGetMaxClockInfo(3)",
        "video",
        "full",
        renewed(
            115, "DCGM_FI_DEV_MAX_VIDEO_CLOCK", 1610, "DCGM_FI_DEV_VIDEO_MAX_CLOCK_HERTZ", _HERTZ
        ),
    ),
)

# Clock types of nvmlClockType_t: graphics 0, SM 1, memory 2, video 3.
CLOCKS: tuple[Field, ...] = tuple(
    gauge(
        number,
        f"{name}_megahertz",
        metric,
        read,
        ("clock", domain),
        times=_MHZ,
        profile=profile,
        dcgm=dcgm,
    )
    for number, name, metric, read, domain, profile, dcgm in _CLOCK_ROWS
)
