"""What is part of a GPU: its MIG instances and NVLinks, whose ids begin with its own."""

from __future__ import annotations

from pipeline.frame import Device

OF_GPU = frozenset({"gpu", "gpu_instance", "nvlink"})  # kinds


def gpu_of(device: Device) -> str:
    """The UUID of the GPU that a device is, or is a part of; empty for any other device.

    >>> gpu_of(Device("n1", "nvlink", "GPU-8a/4")), gpu_of(Device("n1", "ib_port", "0x1/1"))
    ('GPU-8a', '')
    """
    return gpu_id(device.kind, device.id)


def gpu_id(kind: str, name: str) -> str:
    """As ``gpu_of``, by a device's kind and id."""
    return name.partition("/")[0] if kind in OF_GPU else ""
