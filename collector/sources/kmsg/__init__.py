"""The kernel log: what the NVIDIA driver, the network drivers and the kernel
itself say about the hardware.
"""

from collector.sources.kmsg.source import KernelLogSource

__all__ = ["KernelLogSource"]
