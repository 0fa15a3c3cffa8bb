"""The simulated node: physics, faults, and their rendering as NVML, /sys, /proc and
/dev/kmsg of a directory.
"""
