"""Power smoothing of a GPU (Blackwell and later): settings, their profile 0, what overrides it, and
how much of its circuitry is worn. ``read`` is explained in gpu.py.

Field ids and units: nvml.h of driver 615 (NVML_FI_PWR_SMOOTHING_*). NVML answers once power
smoothing may be read in-band (privilege level 1 or 2).
"""

from __future__ import annotations

from pipeline.catalog.fields import Dcgm, Field, Metric
from pipeline.catalog.gpu_rows import gauge

ENABLED = Metric(
    "tocsin_gpu_power_smoothing_enabled",
    "gauge",
    "1 where power smoothing, or this part of it, is on.",
)
PRIVILEGE = Metric(
    "tocsin_gpu_power_smoothing_privilege_level",
    "gauge",
    "Level at which power smoothing may be set in-band.",
)
APPLIED = Metric(
    "tocsin_gpu_power_smoothing_applied_watts",
    "gauge",
    "Ceiling and floors of power that power smoothing applies now.",
)
FLOOR_RANGE = Metric(
    "tocsin_gpu_power_smoothing_floor_setting_ratio",
    "gauge",
    "Range of the floor that may be set, as a share of the maximum power.",
)
LIFETIME = Metric(
    "tocsin_gpu_power_smoothing_lifetime_remaining_ratio",
    "gauge",
    "Share of the lifetime of the power smoothing circuitry that is left.",
)
PROFILES = Metric(
    "tocsin_gpu_power_smoothing_profiles",
    "gauge",
    "Number of preset profiles of power smoothing.",
)
ACTIVE = Metric(
    "tocsin_gpu_power_smoothing_active_profile",
    "gauge",
    "Preset profile of power smoothing in use.",
)
FLOOR = Metric(
    "tocsin_gpu_power_smoothing_floor_ratio",
    "gauge",
    "Floor of power as a share of the maximum, of preset profile 0 and of the override.",
)
RAMP = Metric(
    "tocsin_gpu_power_smoothing_ramp_watts_per_second",
    "gauge",
    "Rate at which power may rise or fall, of preset profile 0 and of the override.",
)
HYSTERESIS = Metric(
    "tocsin_gpu_power_smoothing_ramp_down_hysteresis_seconds",
    "gauge",
    "Wait before power falls, of preset profile 0 and of the override.",
)
SECONDARY = Metric(
    "tocsin_gpu_power_smoothing_secondary_floor_watts",
    "gauge",
    "Secondary floor of power, of preset profile 0 and of the override.",
)
ACTIVATION = Metric(
    "tocsin_gpu_power_smoothing_activation_offset_watts",
    "gauge",
    "Offset at which the primary floor is activated: least allowed, of preset profile 0 and of the "
    "override.",
)
ACTIVATION_POINT = Metric(
    "tocsin_gpu_power_smoothing_activation_point_watts",
    "gauge",
    "Least power at which the primary floor is activated.",
)
WINDOW = Metric(
    "tocsin_gpu_power_smoothing_window_multiplier",
    "gauge",
    "Multipliers of the windows of the primary floor, of preset profile 0 and of the override.",
)
WINDOW_UNIT = Metric(
    "tocsin_gpu_power_smoothing_window_seconds",
    "gauge",
    "Length of a window, by which its multipliers count.",
)
SUPPORTED = Metric(
    "tocsin_gpu_power_smoothing_delayed_supported",
    "gauge",
    "1 where delayed power smoothing is supported.",
)

Label = tuple[str, str]


def _row(
    field: int,
    name: str,
    metric: Metric,
    *labels: Label,
    per: int = 1,
    dcgm: int = 0,
    new: str = "",
    old: str = "",
) -> Field:
    """``old`` and ``new`` are DCGM's names after ``DCGM_FI_DEV_PWR_SMOOTHING_``."""
    prefix = "DCGM_FI_DEV_PWR_SMOOTHING_"
    rows = (Dcgm(dcgm, prefix + old, prefix + new if new else ""),) if dcgm else ()
    return gauge(
        1250 + field,
        f"power_smoothing_{name}",
        metric,
        f"field {field}",
        *labels,
        per=per,
        profile="full",
        dcgm=rows,
    )


def _settings(of: str, first: int, second: int, dcgm: int, word: str) -> tuple[Field, ...]:
    """The parameters of a profile: four from each of two runs of field ids, of which DCGM has the
    first.
    """
    whose: Label = ("setting", of)
    up, down = ("direction", "up"), ("direction", "down")
    return (
        _row(
            first,
            f"{of}_floor_percent",
            FLOOR,
            whose,
            per=100,
            dcgm=dcgm,
            old=f"{word}_PERCENT_TMP_FLOOR",
        ),
        _row(
            first + 1,
            f"{of}_ramp_up_milliwatts_per_second",
            RAMP,
            up,
            whose,
            per=1000,
            dcgm=dcgm + 1,
            old=f"{word}_RAMP_UP_RATE",
        ),
        _row(
            first + 2,
            f"{of}_ramp_down_milliwatts_per_second",
            RAMP,
            down,
            whose,
            per=1000,
            dcgm=dcgm + 2,
            old=f"{word}_RAMP_DOWN_RATE",
        ),
        _row(
            first + 3,
            f"{of}_hysteresis_milliseconds",
            HYSTERESIS,
            whose,
            per=1000,
            dcgm=dcgm + 3,
            old=f"{word}_RAMP_DOWN_HYST_VAL",
        ),
        _row(second, f"{of}_secondary_floor_watts", SECONDARY, whose),
        _row(second + 1, f"{of}_activation_window", WINDOW, ("window", "activation"), whose),
        _row(second + 2, f"{of}_target_window", WINDOW, ("window", "target"), whose),
        _row(second + 3, f"{of}_activation_offset_watts", ACTIVATION, whose),
    )


FIELDS: tuple[Field, ...] = (
    _row(251, "enabled", ENABLED, ("part", "all"), dcgm=1425, old="ENABLED"),
    _row(252, "privilege_level", PRIVILEGE, dcgm=1426, old="PRIV_LVL"),
    _row(
        253,
        "immediate_ramp_down_enabled",
        ENABLED,
        ("part", "immediate_ramp_down"),
        dcgm=1427,
        old="IMM_RAMP_DOWN_ENABLED",
    ),
    _row(
        254,
        "ceiling_watts",
        APPLIED,
        ("bound", "ceiling"),
        dcgm=1428,
        old="APPLIED_TMP_CEIL",
        new="APPLIED_TMP_CEIL_WATTS",
    ),
    _row(
        255,
        "floor_watts",
        APPLIED,
        ("bound", "floor"),
        dcgm=1429,
        old="APPLIED_TMP_FLOOR",
        new="APPLIED_TMP_FLOOR_WATTS",
    ),
    _row(
        256,
        "floor_setting_maximum_percent",
        FLOOR_RANGE,
        ("bound", "maximum"),
        per=100,
        dcgm=1430,
        old="MAX_PERCENT_TMP_FLOOR_SETTING",
    ),
    _row(
        257,
        "floor_setting_minimum_percent",
        FLOOR_RANGE,
        ("bound", "minimum"),
        per=100,
        dcgm=1431,
        old="MIN_PERCENT_TMP_FLOOR_SETTING",
    ),
    _row(
        258,
        "lifetime_remaining_percent",
        LIFETIME,
        per=100,
        dcgm=1432,
        old="HW_CIRCUITRY_PERCENT_LIFETIME_REMAINING",
    ),
    _row(
        259,
        "profiles",
        PROFILES,
        dcgm=1433,
        old="MAX_NUM_PRESET_PROFILES",
        new="MAX_PRESET_PROFILES",
    ),
    _row(264, "active_profile", ACTIVE, dcgm=1438, old="ACTIVE_PRESET_PROFILE"),
    *_settings("profile", 260, 281, 1434, "PROFILE"),  # preset profile 0
    *_settings("override", 265, 285, 1439, "ADMIN_OVERRIDE"),  # what an administrator set instead
    _row(275, "primary_floor_watts", APPLIED, ("bound", "primary_floor")),
    _row(276, "secondary_floor_watts", APPLIED, ("bound", "secondary_floor")),
    _row(277, "activation_offset_minimum_watts", ACTIVATION, ("setting", "minimum")),
    _row(278, "activation_point_watts", ACTIVATION_POINT),
    _row(279, "window_milliseconds", WINDOW_UNIT, per=1000),
    _row(280, "delayed_supported", SUPPORTED),
    _row(300, "state_of_charge_enabled", ENABLED, ("part", "state_of_charge")),
)
