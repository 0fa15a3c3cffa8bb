"""The NVML source: GPUs, MIG instances and NVLinks through a driver child that may
hang, crash or be missing.

The parent (source.py) never loads the driver library. The child (driver.py) does, and nothing
else: no numpy, no asyncio.
"""
