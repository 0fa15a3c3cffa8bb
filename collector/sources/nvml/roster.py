"""The devices of the NVML source and their rows: known ones from the first reading on, new ones as they are found."""

from __future__ import annotations

from collections.abc import Mapping

from collector.inventory import Inventory
from collector.sources.nvml.targets import Target
from pipeline.align import Rows
from pipeline.frame import Device

KINDS = ("gpu", "gpu_instance", "nvlink")


class Roster:
    """Rows per kind. A GPU keeps its row when it is lost; what the inventory no longer expects keeps it too, unobserved."""

    def __init__(self, host: str, inventory: Inventory) -> None:
        self.rows = {kind: Rows(inventory.devices(kind) if kind == "gpu" else ()) for kind in KINDS}
        self._host, self._inventory = host, inventory
        self._facts: dict[str, Mapping[str, str]] = {}
        self._lives: dict[str, int] = {}

    def expect(self, uuid: str, index: int) -> None:
        """A GPU that was found but not read yet has a row too: the next call may hang."""
        if self.rows["gpu"].row(Device(self._host, "gpu", uuid)) is None:
            device = Device(self._host, "gpu", uuid, {"index": str(index)})
            self.rows["gpu"].place([device])
            self._inventory.learn("gpu", [device])

    def note(self, target: Target, uuids: Mapping[int, str]) -> None:
        """Place a target that is new or has new facts; ``uuids`` are the GPUs by index."""
        attributes = dict(target.facts) | {"index": str(target.gpu)}
        if target.kind == "gpu":
            self._facts[target.id] = attributes
            attributes |= {"epoch": self._epoch(target.id)}
        else:
            attributes |= {"gpu_uuid": uuids.get(target.gpu, "")}
            pci = self._facts.get(uuids.get(target.gpu, ""), {}).get("pci_bus_id")
            attributes |= {"pci_bus_id": pci} if pci and target.kind == "gpu_instance" else {}
        device = Device(self._host, target.kind, target.id, attributes)
        (target.row,) = self.rows[target.kind].place([device])
        if target.kind == "gpu":
            self._inventory.learn("gpu", [device])

    def sizes(self) -> dict[str, int]:
        """Number of rows per kind."""
        return {kind: len(rows) for kind, rows in self.rows.items()}

    def gpus(self) -> tuple[Device, ...]:
        """All GPUs in the order of their rows."""
        return self.rows["gpu"].devices

    def begin_life(self, uuid: str) -> None:
        """The GPU's counters began anew: driver load or reset."""
        self._lives[uuid] = self._lives.get(uuid, 0) + 1
        attributes = dict(self._facts[uuid]) | {"epoch": self._epoch(uuid)}
        self.rows["gpu"].place([Device(self._host, "gpu", uuid, attributes)])

    def expected(self) -> frozenset[str]:
        """UUIDs of the GPUs this node should have."""
        return frozenset(device.id for device in self._inventory.devices("gpu"))

    def uuid_at(self, index: int) -> str:
        """UUID of the GPU that was last seen at this index, empty where none was."""
        return next((d.id for d in reversed(self.gpus()) if d.attributes.get("index") == str(index)), "")

    def _epoch(self, uuid: str) -> str:
        return f"{self._facts[uuid].get('driver_version', '')}#{self._lives.get(uuid, 0)}"
