"""Whether the GPUs of a node have joined the NVLink fabric, and how healthy it is."""

from detectors.nvlink_fabric.detector import NvLinkFabric

__all__ = ["NvLinkFabric"]
