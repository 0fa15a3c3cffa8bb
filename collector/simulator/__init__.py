"""The simulated node: physics, faults, and their rendering as NVML, sysfs and kernel log, so that the real collectors run unchanged."""
