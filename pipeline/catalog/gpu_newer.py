"""Field values of newer drivers (570 to 615) that are in no other table. ``read`` is explained in
gpu.py.
"""

from __future__ import annotations

from pipeline.catalog.fields import Field, Metric
from pipeline.catalog.gpu_rows import gauge

RESET = Metric(
    "tocsin_gpu_reset_required",
    "gauge",
    "1 where the driver asks for a reset (deprecated by the recovery action), by kind.",
)
BALANCING_FREQUENCY = Metric(
    "tocsin_gpu_power_sync_balancing_frequency",
    "gauge",
    "Frequency of power balancing, in NVML's unit.",
)
BALANCING_FACTOR = Metric(
    "tocsin_gpu_power_sync_balancing_factor",
    "gauge",
    "Factor of power balancing.",
)
EDPP = Metric("tocsin_gpu_edpp_multiplier_ratio", "gauge", "Multiplier of the peak current limit.")
STALL = Metric(
    "tocsin_gpu_mma_stall_ratio", "gauge", "Share of time in which matrix units are stalled."
)
SWITCH = Metric(
    "tocsin_gpu_memory_clock_switch_type",
    "gauge",
    "How the memory clock is switched (NVML_MCLK_SWITCH_TYPE).",
)
INTERVAL = Metric(
    "tocsin_gpu_memory_clock_switch_interval_seconds",
    "gauge",
    "Least time between two switches of the memory clock.",
)


def _row(field: int, name: str, metric: Metric, *labels: tuple[str, str], per: int = 1) -> Field:
    return gauge(1250 + field, name, metric, f"field {field}", *labels, per=per, profile="full")


FIELDS: tuple[Field, ...] = (
    _row(226, "reset_required", RESET, ("kind", "reset")),
    _row(227, "drain_and_reset_required", RESET, ("kind", "drain_and_reset")),
    _row(272, "power_sync_balancing_frequency", BALANCING_FREQUENCY),
    _row(273, "power_sync_balancing_factor", BALANCING_FACTOR),
    _row(274, "edpp_multiplier_percent", EDPP, per=100),
    _row(297, "mma_stall_percent", STALL, per=100),
    _row(298, "memory_clock_switch_type", SWITCH),
    _row(299, "memory_clock_switch_interval_milliseconds", INTERVAL, per=1000),
)
