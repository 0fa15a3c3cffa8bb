"""The devices of the NVML source and their rows: known ones from the first reading on,
new ones as they are found.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collector.node.inventory import Inventory
from collector.node.state import State
from collector.sources.nvml.targets import Target
from pipeline.align import Rows
from pipeline.frame import Device

KINDS = ("gpu", "gpu_instance", "nvlink")
LIVES = (
    "lives"  # the state document: UUID -> number of the GPU's life, and energy counted in it, mJ
)


class Roster:
    """Rows per kind.

    A GPU keeps its row when it is lost; what the inventory no longer expects
    keeps it too, unobserved.
    """

    def __init__(self, host: str, inventory: Inventory, state: State) -> None:
        self.rows = {kind: Rows(inventory.devices(kind) if kind == "gpu" else ()) for kind in KINDS}
        self._host, self._inventory, self._state = host, inventory, state
        self._facts: dict[str, Mapping[str, str]] = {}
        self._lives = _lives(state.load(LIVES))

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

    def count_lives(self, energy: Mapping[str, int]) -> None:
        """Energy counters of GPUs that answer, by UUID, mJ: they count from driver load or reset,
        so one that fell began another life.

        That holds over a restart of the agent too, which often has to stop for a reset.
        """
        reset = [uuid for uuid, now in energy.items() if now < self._lives.get(uuid, (0, 0))[1]]
        for uuid, now in energy.items():
            self._lives[uuid] = (self._life(uuid) + (uuid in reset), now)
        if reset:
            devices = [
                Device(self._host, "gpu", u, dict(self._facts[u]) | {"epoch": self._epoch(u)})
                for u in reset
            ]
            self.rows["gpu"].place(devices)
            self._inventory.learn("gpu", devices)
            self.keep()

    def keep(self) -> None:
        """Let the lives outlive this process.

        Energy only grows in a life: an old value of it is a lower bound, and does no harm.
        """
        self._state.save(LIVES, dict(self._lives))

    def expected(self) -> frozenset[str]:
        """UUIDs of the GPUs this node should have."""
        return frozenset(device.id for device in self._inventory.devices("gpu"))

    def uuid_at(self, index: int) -> str:
        """UUID of the GPU that was last seen at this index, empty where none was."""
        return next(
            (d.id for d in reversed(self.gpus()) if d.attributes.get("index") == str(index)), ""
        )

    def _epoch(self, uuid: str) -> str:
        return f"{self._facts[uuid].get('driver_version', '')}#{self._life(uuid)}"

    def _life(self, uuid: str) -> int:
        return self._lives.get(uuid, (0, 0))[0]


def _lives(document: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """What was kept; what a damaged or foreign file holds is passed over."""
    lives: dict[str, tuple[int, int]] = {}
    for uuid, life in document.items():
        match life:
            case [int(number), int(energy)]:
                lives[uuid] = (number, energy)
    return lives
