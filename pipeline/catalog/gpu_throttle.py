"""Why and for how long clocks were held back. ``read`` is explained in gpu.py.

The mask is an instant and misses pulses; the nanosecond counters miss nothing
and run from driver load.
"""

from __future__ import annotations

from pipeline.catalog.fields import Dcgm, Field, Metric, Profile
from pipeline.catalog.gpu_rows import counter, gauge
from pipeline.clock import SECOND_NS

REASONS = Metric(
    "tocsin_gpu_clock_event_reasons",
    "gauge",
    "Bit mask of why clocks are held back now (nvmlClocksEventReasons).",
)
REASONS_SUPPORTED = Metric(
    "tocsin_gpu_clock_event_reasons_supported",
    "gauge",
    "Bit mask of the clock event reasons this GPU can report.",
)
THROTTLED = Metric(
    "tocsin_gpu_throttled_seconds_total",
    "counter",
    "Time in which clocks were held back, by reason.",
)


def _policy(old: int, name: str, new: int, new_name: str) -> tuple[Dcgm, ...]:
    return (
        Dcgm(old, f"DCGM_FI_DEV_{name}", successor=new),
        Dcgm(new, f"DCGM_FI_DEV_GPU_{new_name}_THROTTLE_SECONDS_TOTAL", per=SECOND_NS, whole=False),
    )


def _event(number: int, name: str) -> Dcgm:
    return Dcgm(number, f"DCGM_FI_DEV_CLOCKS_EVENT_REASON_{name}_NS")


_COUNTERS: tuple[tuple[int, str, int, Profile, tuple[Dcgm, ...]], ...] = (
    (
        1072,
        "power_cap",
        74,
        "default",
        (*_policy(240, "POWER_VIOLATION", 1617, "POWER"), _event(1420, "SW_POWER_CAP")),
    ),
    (1073, "thermal", 75, "full", _policy(241, "THERMAL_VIOLATION", 1618, "THERMAL")),
    (
        1074,
        "sync_boost",
        76,
        "default",
        (*_policy(242, "SYNC_BOOST_VIOLATION", 1619, "SYNC_BOOST"), _event(1421, "SYNC_BOOST")),
    ),
    (1075, "board_limit", 77, "default", _policy(243, "BOARD_LIMIT_VIOLATION", 1620, "LIMIT")),
    (1076, "low_utilization", 78, "full", _policy(244, "LOW_UTIL_VIOLATION", 1621, "LOW_UTIL")),
    (
        1077,
        "reliability",
        79,
        "default",
        _policy(245, "RELIABILITY_VIOLATION", 1622, "RELIABILITY"),
    ),
    (
        1078,
        "application_clocks",
        80,
        "full",
        _policy(246, "TOTAL_APP_CLOCKS_VIOLATION", 1623, "APP"),
    ),
    (1079, "base_clocks", 81, "full", _policy(247, "TOTAL_BASE_CLOCKS_VIOLATION", 1624, "BASE")),
    (1080, "sw_thermal", 269, "default", (_event(1422, "SW_THERM_SLOWDOWN"),)),
    (1081, "hw_thermal", 270, "default", (_event(1423, "HW_THERM_SLOWDOWN"),)),
    (1082, "hw_power_brake", 271, "default", (_event(1424, "HW_POWER_BRAKE_SLOWDOWN"),)),
)

FIELDS: tuple[Field, ...] = (
    gauge(
        1070,
        "clock_event_reasons",
        REASONS,
        "nvmlDeviceGetCurrentClocksEventReasons() | nvmlDeviceGetCurrentClocksThrottleReasons()",
        dcgm=(Dcgm(112, "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"),),
    ),
    gauge(
        1071,
        "clock_event_reasons_supported",
        REASONS_SUPPORTED,
        (
            "nvmlDeviceGetSupportedClocksEventReasons() | "
            "nvmlDeviceGetSupportedClocksThrottleReasons()"
        ),
        profile="full",
    ),
    *(
        counter(
            number,
            f"throttled_{reason}_nanoseconds",
            THROTTLED,
            f"field {field}",
            ("reason", reason),
            per=SECOND_NS,
            most=SECOND_NS,
            profile=profile,
            dcgm=dcgm,
        )
        for number, reason, field, profile, dcgm in _COUNTERS
    ),
)
