"""The devices this node should have: learned, declared, and kept over restarts, so that a lost one is missed."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock

from collector.state import State
from pipeline.frame import Device


def pci_key(address: str) -> str:
    """PCI address in one spelling, whatever the number of domain digits and with or without function.

    >>> pci_key("00000000:1B:00.0"), pci_key("0000:1b:00"), pci_key("1b:00.0")
    ('0000:1b:00', '0000:1b:00', '0000:1b:00')
    """
    parts = address.strip().lower().partition(".")[0].split(":")
    domain = int(parts[0], 16) if len(parts) == 3 else 0
    return f"{domain:04x}:{parts[-2]}:{parts[-1]}"


class Inventory:
    """Known devices of each kind with their attributes, by identity. A swapped part is a new device; the old one stays until forgotten.

    Any thread may ask. ``learn`` persists when something is new. ``replaced_by_slot``: a new GPU at a PCI address takes the place of
    the one that was there (a swap), so the old one is no longer expected.
    """

    def __init__(self, host: str, state: State) -> None:
        self._host = host
        self._state = state
        self._lock = Lock()
        self._known: dict[str, dict[str, Device]] = {}
        for kind, devices in state.load("inventory").items():
            if isinstance(devices, dict):
                self._known[kind] = {i: Device(host, kind, i, dict(a)) for i, a in devices.items() if isinstance(a, dict)}

    def devices(self, kind: str) -> tuple[Device, ...]:
        """Known devices of a kind in the order they were learned."""
        return tuple(self._known.get(kind, {}).values())

    def learn(self, kind: str, seen: Iterable[Device]) -> None:
        """Remember devices that answer now, with their attributes of now."""
        with self._lock:
            known = dict(self._known.get(kind, {}))
            before = {i: d.attributes for i, d in known.items()}
            for device in seen:
                slot = device.attributes.get("pci_bus_id")
                if device.id not in known and slot and kind == "gpu":
                    known = {i: d for i, d in known.items() if pci_key(d.attributes.get("pci_bus_id", "0:0:0")) != pci_key(slot)}
                known[device.id] = device
            if before == {i: d.attributes for i, d in known.items()}:
                return
            self._known[kind] = known
            self._save()

    def forget(self, kind: str, ids: Iterable[str]) -> None:
        """Stop expecting devices (a part that was taken out for good)."""
        with self._lock:
            gone = set(ids)
            self._known[kind] = {i: d for i, d in self._known.get(kind, {}).items() if i not in gone}
            self._save()

    def gpu_at(self, pci: str) -> Device | None:
        """The GPU at a PCI address, also when it no longer answers."""
        wanted = pci_key(pci)
        for device in self.devices("gpu"):
            if pci_key(device.attributes.get("pci_bus_id", "0:0:0")) == wanted:
                return device
        return None

    def port_of(self, *, device: str = "", pci: str = "") -> Device | None:
        """The first RDMA port of an RDMA or net device name (mlx5_0, ibp94s0) or PCI address."""
        for port in self.devices("ib_port"):
            facts = port.attributes
            if device and device in (facts.get("device"), facts.get("net_device")):
                return port
            if pci and facts.get("pci_bus_id") and pci_key(facts["pci_bus_id"]) == pci_key(pci):
                return port
        return None

    def _save(self) -> None:
        self._state.save("inventory", {k: {i: dict(d.attributes) for i, d in ds.items()} for k, ds in self._known.items()})
