"""Series of utkuozdemir/nvidia_gpu_exporter, which asks nvidia-smi: base units, ``uuid`` without
its ``GPU-``, and no host but that of ``instance``.
"""

from __future__ import annotations

from history.meaning.column import Column

_PREFIX = "nvidia_smi_"
COLUMNS = {
    f"{_PREFIX}temperature_gpu": Column("gpu", "temperature_celsius"),
    f"{_PREFIX}power_draw_watts": Column("gpu", "power_milliwatts", per=1000),
    f"{_PREFIX}utilization_gpu_ratio": Column("gpu", "gpu_utilization_percent", per=100),
    f"{_PREFIX}memory_used_bytes": Column("gpu", "memory_used_bytes"),
    f"{_PREFIX}clocks_current_sm_clock_hz": Column("gpu", "sm_clock_megahertz", times=10**6),
    f"{_PREFIX}pcie_link_gen_current": Column("gpu", "pcie_generation_current"),
    f"{_PREFIX}pcie_link_width_current": Column("gpu", "pcie_width_current"),
    f"{_PREFIX}energy_joules_total": Column("gpu", "energy_millijoules", per=1000),
    f"{_PREFIX}enforced_power_limit_watts": Column(
        "gpu", "power_limit_enforced_milliwatts", per=1000
    ),
    f"{_PREFIX}power_default_limit_watts": Column(
        "gpu", "power_limit_default_milliwatts", per=1000
    ),
}
