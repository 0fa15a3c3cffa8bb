"""GPUs that another kernel driver has, such as vfio-pci: given to a virtual machine on purpose, and not gone."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from collector.inventory import pci_key
from pipeline.frame import Device

log = logging.getLogger("tocsin.nvml")

NVIDIA = "nvidia"


class Taken:
    """Looks into sysfs who has a GPU that does not answer. A GPU that nobody has is gone, or on its way."""

    def __init__(self, sys: Path) -> None:
        self._devices = sys / "bus" / "pci" / "devices"
        self._by: dict[str, str] = {}  # UUID -> driver

    def look(self, silent: Iterable[Device]) -> frozenset[str]:
        """UUIDs of those that another driver has; each change is said once."""
        by = {gpu.id: driver for gpu in silent if (driver := self._driver(gpu)) not in ("", NVIDIA)}
        for uuid, driver in by.items():
            if self._by.get(uuid) != driver:
                log.info("GPU %s is bound to %s, not to NVIDIA's driver: it is not expected", uuid, driver)
        self._by = by
        return frozenset(by)

    def _driver(self, gpu: Device) -> str:
        """Kernel driver of the GPU's first function, empty where there is none or no such device."""
        try:
            return (self._devices / f"{pci_key(gpu.attributes.get('pci_bus_id', ''))}.0" / "driver").readlink().name
        except OSError:
            return ""
