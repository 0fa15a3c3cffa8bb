"""Power, energy, temperature and modes of a GPU. ``read`` is explained in gpu.py."""

from __future__ import annotations

from pipeline.catalog.fields import Dcgm, Field, Metric
from pipeline.catalog.gpu_rows import counter, gauge, renewed

POWER = Metric("tocsin_gpu_power_watts", "gauge", "Power draw of the board by averaging mode.")
POWER_LIMIT = Metric(
    "tocsin_gpu_power_limit_watts",
    "gauge",
    "Power limits: enforced, requested, default, and the range allowed.",
)
ENERGY = Metric(
    "tocsin_gpu_energy_joules_total", "counter", "Energy used since the driver was loaded."
)
TEMPERATURE = Metric("tocsin_gpu_temperature_celsius", "gauge", "Temperature by sensor.")
THRESHOLD = Metric(
    "tocsin_gpu_temperature_threshold_celsius",
    "gauge",
    "Temperature at which the GPU acts, by action.",
)
MARGIN = Metric(
    "tocsin_gpu_temperature_margin_celsius",
    "gauge",
    "Headroom to the temperature at which the GPU slows down.",
)
MARGIN_THRESHOLD = Metric(
    "tocsin_gpu_temperature_margin_threshold_celsius",
    "gauge",
    "Margin (T.Limit) at which the GPU acts, by action.",
)
FAN = Metric(
    "tocsin_gpu_fan_speed_ratio",
    "gauge",
    "Intended fan speed as a share of the maximum; may exceed 1.",
)
PSTATE = Metric(
    "tocsin_gpu_performance_state",
    "gauge",
    "Performance state: 0 is the fastest, 15 the slowest, 32 unknown.",
)
PERSISTENCE = Metric(
    "tocsin_gpu_persistence_mode", "gauge", "1 while the driver stays loaded without a client."
)
COMPUTE_MODE = Metric(
    "tocsin_gpu_compute_mode",
    "gauge",
    "1 for the compute mode the GPU is in, 0 for the others.",
    ("mode",),
)
MIG_MODE = Metric(
    "tocsin_gpu_mig_mode",
    "gauge",
    "1 where multi-instance mode is on: now, or pending until a reset.",
)

_DEV = "DCGM_FI_DEV_"


def _watts(old: int, name: str, new_name: str, *, whole: bool = True) -> tuple[Dcgm, ...]:
    return (Dcgm(old, _DEV + name, _DEV + new_name, per=1000, whole=whole),)


ELECTRIC: tuple[Field, ...] = (
    # 1 s mean on Ampere and later except GA100, an instant elsewhere (nvml.h,
    # nvmlDeviceGetPowerUsage).
    gauge(
        1020,
        "power_milliwatts",
        POWER,
        "nvmlDeviceGetPowerUsage()",
        ("mode", "default"),
        per=1000,
        profile="minimal",
        dcgm=_watts(155, "POWER_USAGE", "BOARD_POWER_WATTS", whole=False),
    ),
    gauge(
        1021,
        "power_instant_milliwatts",
        POWER,
        "field 186",
        ("mode", "instant"),
        per=1000,
        dcgm=_watts(157, "POWER_USAGE_INSTANT", "BOARD_POWER_RAW_WATTS", whole=False),
    ),
    gauge(
        1022,
        "power_average_milliwatts",
        POWER,
        "field 185",
        ("mode", "average"),
        per=1000,
        profile="full",
    ),
    gauge(
        1023,
        "power_limit_enforced_milliwatts",
        POWER_LIMIT,
        "field 190 | nvmlDeviceGetEnforcedPowerLimit()",
        ("limit", "enforced"),
        per=1000,
        dcgm=_watts(164, "ENFORCED_POWER_LIMIT", "BOARD_POWER_LIMIT_ENFORCED_WATTS"),
    ),
    gauge(
        1024,
        "power_limit_requested_milliwatts",
        POWER_LIMIT,
        "field 192 | nvmlDeviceGetPowerManagementLimit()",
        ("limit", "requested"),
        per=1000,
        profile="full",
        dcgm=_watts(160, "POWER_MGMT_LIMIT", "BOARD_POWER_LIMIT_REQUESTED_WATTS"),
    ),
    gauge(
        1025,
        "power_limit_default_milliwatts",
        POWER_LIMIT,
        "field 189 | nvmlDeviceGetPowerManagementDefaultLimit()",
        ("limit", "default"),
        per=1000,
        dcgm=_watts(163, "POWER_MGMT_LIMIT_DEF", "BOARD_POWER_LIMIT_DEFAULT_WATTS"),
    ),
    gauge(
        1026,
        "power_limit_minimum_milliwatts",
        POWER_LIMIT,
        "field 187 | nvmlDeviceGetPowerManagementLimitConstraints()[0]",
        ("limit", "minimum"),
        per=1000,
        profile="full",
        dcgm=_watts(161, "POWER_MGMT_LIMIT_MIN", "BOARD_POWER_LIMIT_MIN_WATTS"),
    ),
    gauge(
        1027,
        "power_limit_maximum_milliwatts",
        POWER_LIMIT,
        "field 188 | nvmlDeviceGetPowerManagementLimitConstraints()[1]",
        ("limit", "maximum"),
        per=1000,
        profile="full",
        dcgm=_watts(162, "POWER_MGMT_LIMIT_MAX", "BOARD_POWER_LIMIT_MAX_WATTS"),
    ),
    counter(
        1030,
        "energy_millijoules",
        ENERGY,
        "field 83 | nvmlDeviceGetTotalEnergyConsumption()",
        per=1000,
        most=10_000_000,  # 10 kW: above any board sold
        profile="minimal",
        dcgm=(
            Dcgm(156, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", successor=1611),
            Dcgm(1611, "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", per=1000),
        ),
    ),
)

THERMAL: tuple[Field, ...] = (
    gauge(
        1010,
        "temperature_celsius",
        TEMPERATURE,
        "nvmlDeviceGetTemperature(0) | nvmlDeviceGetTemperatureV(0)",
        ("sensor", "core"),
        profile="minimal",
        dcgm=(Dcgm(150, "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS"),),
    ),
    gauge(
        1011,
        "memory_temperature_celsius",
        TEMPERATURE,
        "field 82",
        ("sensor", "memory"),
        dcgm=(Dcgm(140, "DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS"),),
    ),
    # nvmlTemperatureThresholds_t: shutdown 0, slowdown 1, memory maximum 2, GPU maximum 3.
    gauge(
        1012,
        "temperature_shutdown_celsius",
        THRESHOLD,
        "nvmlDeviceGetTemperatureThreshold(0)",
        ("action", "shutdown"),
        dcgm=(Dcgm(159, "DCGM_FI_DEV_SHUTDOWN_TEMP", "DCGM_FI_DEV_GPU_TEMP_SHUTDOWN_CELSIUS"),),
    ),
    gauge(
        1013,
        "temperature_slowdown_celsius",
        THRESHOLD,
        "nvmlDeviceGetTemperatureThreshold(1)",
        ("action", "slowdown"),
        dcgm=(Dcgm(158, "DCGM_FI_DEV_SLOWDOWN_TEMP", "DCGM_FI_DEV_GPU_TEMP_SLOWDOWN_CELSIUS"),),
    ),
    gauge(
        1014,
        "temperature_memory_maximum_celsius",
        THRESHOLD,
        "nvmlDeviceGetTemperatureThreshold(2)",
        ("action", "memory_maximum"),
        profile="full",
        dcgm=(Dcgm(151, "DCGM_FI_DEV_MEM_MAX_OP_TEMP", "DCGM_FI_DEV_MEMORY_MAX_OP_TEMP_CELSIUS"),),
    ),
    gauge(
        1015,
        "temperature_gpu_maximum_celsius",
        THRESHOLD,
        "nvmlDeviceGetTemperatureThreshold(3)",
        ("action", "gpu_maximum"),
        profile="full",
        dcgm=(Dcgm(152, "DCGM_FI_DEV_GPU_MAX_OP_TEMP", "DCGM_FI_DEV_GPU_MAX_OP_TEMP_CELSIUS"),),
    ),
    gauge(
        1016,
        "temperature_margin_celsius",
        MARGIN,
        "nvmlDeviceGetMarginTemperature()",
        dcgm=(Dcgm(153, "DCGM_FI_DEV_GPU_TEMP_LIMIT", "DCGM_FI_DEV_GPU_TEMP_MARGIN_CELSIUS"),),
    ),
    gauge(
        1017,
        "margin_shutdown_celsius",
        MARGIN_THRESHOLD,
        "field 193",
        ("action", "shutdown"),
        profile="full",
    ),
    gauge(
        1018,
        "margin_slowdown_celsius",
        MARGIN_THRESHOLD,
        "field 194",
        ("action", "slowdown"),
        profile="full",
    ),
    gauge(
        1019,
        "margin_memory_maximum_celsius",
        MARGIN_THRESHOLD,
        "field 195",
        ("action", "memory_maximum"),
        profile="full",
    ),
    gauge(
        1031,
        "margin_gpu_maximum_celsius",
        MARGIN_THRESHOLD,
        "field 196",
        ("action", "gpu_maximum"),
        profile="full",
    ),
    gauge(
        1032,
        "fan_speed_percent",
        FAN,
        "nvmlDeviceGetFanSpeed()",
        per=100,
        dcgm=renewed(
            191, "DCGM_FI_DEV_FAN_SPEED", 1612, "DCGM_FI_DEV_FAN_SPEED_RATIO", ((1, 1), (1, 100))
        ),
    ),
)

MODES: tuple[Field, ...] = (
    gauge(
        1060,
        "performance_state",
        PSTATE,
        "nvmlDeviceGetPerformanceState()",
        dcgm=(Dcgm(190, "DCGM_FI_DEV_PSTATE", "DCGM_FI_DEV_GPU_PSTATE"),),
    ),
    gauge(
        1061,
        "persistence_mode",
        PERSISTENCE,
        "nvmlDeviceGetPersistenceMode()",
        dcgm=(Dcgm(66, "DCGM_FI_DEV_PERSISTENCE_MODE", "DCGM_FI_DEV_GPU_PERSISTENCE_MODE"),),
    ),
    # DCGM numbers compute modes again (its field 65): the dialect derives it.
    gauge(
        1062,
        "compute_mode",
        COMPUTE_MODE,
        "nvmlDeviceGetComputeMode()",
        profile="full",
        states=(
            (0, "default"),
            (1, "exclusive_thread"),
            (2, "prohibited"),
            (3, "exclusive_process"),
        ),
    ),
    gauge(
        1063,
        "mig_mode_current",
        MIG_MODE,
        "nvmlDeviceGetMigMode()[0]",
        ("mode", "current"),
        dcgm=(Dcgm(67, "DCGM_FI_DEV_MIG_MODE"),),
    ),
    gauge(
        1064,
        "mig_mode_pending",
        MIG_MODE,
        "nvmlDeviceGetMigMode()[1]",
        ("mode", "pending"),
        profile="full",
    ),
)
