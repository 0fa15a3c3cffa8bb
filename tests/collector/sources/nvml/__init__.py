"""The NVML source."""
