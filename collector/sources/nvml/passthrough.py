"""GPUs that are bound to a driver for virtual machines: given away on purpose,
and neither gone nor sick.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from collector.node.inventory import pci_key
from pipeline.frame import Device

# KVM's older one and Xen's; all others have vfio in their names (Linux, drivers/vfio/pci).
STUBS = frozenset({"pci-stub", "pciback"})
# PCI vendor, and base class of the PCI Code and ID Assignment Specification
NVIDIA, DISPLAY = "0x10de", "0x03"


def given_away(sysfs: Path, gpus: Iterable[Device]) -> frozenset[str]:
    """UUIDs of those in whose slot a GPU of NVIDIA's stands that such a driver has.

    A GPU that no driver has is gone, or on its way.
    """
    return frozenset(
        gpu.id for gpu in gpus if _is_given_away(sysfs, gpu.attributes.get("pci_bus_id", ""))
    )


def has_driver_for_guests(function: Path) -> bool:
    """Whether a PCI function, a folder of sysfs, is bound to a driver for virtual machines."""
    try:
        driver = (function / "driver").readlink().name
    except OSError:
        return False
    return "vfio" in driver or driver in STUBS


def is_gpu(function: Path) -> bool:
    """Whether a PCI function, a folder of sysfs, is a GPU of NVIDIA's."""
    try:
        vendor, kind = (
            (function / name).read_text(encoding="ascii", errors="replace").strip()
            for name in ("vendor", "class")
        )
    except OSError:
        return False
    return vendor == NVIDIA and kind.startswith(DISPLAY)


def _is_given_away(sysfs: Path, address: str) -> bool:
    function = sysfs / "bus" / "pci" / "devices" / f"{pci_key(address)}.0"
    return has_driver_for_guests(function) and is_gpu(function)
