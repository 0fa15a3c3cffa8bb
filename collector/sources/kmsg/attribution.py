"""To which device an event of the kernel log belongs."""

from __future__ import annotations

from collections.abc import Mapping

from collector.node.inventory import Inventory, pci_key
from pipeline.frame import Device

MAX_UUIDS = 64  # no node has more GPUs

_OF_A_FUNCTION = frozenset(["module_loaded"])  # virtual functions beside the adapter have their own
# Theirs may be in a pod, which may name its net device as the host's.
_OF_A_PORT = _OF_A_FUNCTION | {"link_down", "link_up"}


class Attribution:
    """Finds the device by its PCI address; what is not found is the node's own, with the
    address as an attribute.

    The inventory knows GPUs that no longer answer. Where it does not (an XID before the first NVML
    sweep, a GPU that was dead before the agent came), the UUID that the driver prints before a
    GPU's first XID is its identity. For the boot before, the inventory of the start counts: the
    part may have been swapped since.
    """

    def __init__(
        self, host: str, inventory: Inventory, uuids: Mapping[str, str] | None = None
    ) -> None:
        self._host = host
        self._inventory = inventory
        self._node = Device(host, "node", host)
        self._before = {
            pci_key(d.attributes["pci_bus_id"]): d
            for d in inventory.devices("gpu")
            if d.attributes.get("pci_bus_id")
        }
        self.uuids: dict[str, str] = dict(uuids or {})

    def learn(self, pci: str, uuid: str) -> None:
        """Remember the UUID that the driver named for an address."""
        self.uuids.pop(pci, None)
        self.uuids[pci] = uuid
        if len(self.uuids) > MAX_UUIDS:
            del self.uuids[next(iter(self.uuids))]

    def device(self, kind: str, pci: str, interface: str = "") -> Device:
        """The device of an event of this boot."""
        gpu = (
            (self._inventory.gpu_at(pci) or self._named(pci))
            if pci and kind not in _OF_A_FUNCTION
            else None
        )
        return gpu or self._port(kind, pci, interface) or self._node

    def device_before(self, kind: str, pci: str, uuids: Mapping[str, str]) -> Device:
        """The device of an event of the boot before, whose log named these UUIDs."""
        if not pci or kind in _OF_A_FUNCTION:
            return self.device(kind, pci)
        if uuid := uuids.get(pci_key(pci)):
            known = next((d for d in self._before.values() if d.id == uuid), None)
            return known or Device(self._host, "gpu", uuid, {"pci_bus_id": pci})
        return self._before.get(pci_key(pci)) or self._port(kind, pci, "") or self._node

    def _named(self, pci: str) -> Device | None:
        uuid = self.uuids.get(pci_key(pci))
        return Device(self._host, "gpu", uuid, {"pci_bus_id": pci}) if uuid else None

    def _port(self, kind: str, pci: str, interface: str) -> Device | None:
        """The RDMA port at the address: of a card with several, the one of that function. Without
        an address, the one of a net device name; so where a function has several.
        """
        named = self._inventory.port_of(device=interface) if interface else None
        if not pci:
            return named
        ports = [p for p in self._inventory.devices("ib_port") if p.attributes.get("pci_bus_id")]
        near = [p for p in ports if pci_key(p.attributes["pci_bus_id"]) == pci_key(pci)]
        same = [p for p in near if _function(p.attributes["pci_bus_id"]) == _function(pci)]
        if named is not None and (named in same or not named.attributes.get("pci_bus_id")):
            return named
        exactly = kind in _OF_A_PORT
        return same[0] if same else near[0] if len(near) == 1 and not exactly else None


def _function(pci: str) -> str:
    return pci.rpartition(".")[2]
