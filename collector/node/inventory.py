"""The devices this node should have: learned, declared, and kept over restarts, so
that a lost one is missed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from threading import Lock

from collector.node.state import State
from pipeline.frame import Device

_PCI = re.compile(
    r"(?:(?P<domain>[0-9a-fA-F]{4,"
    r"8}):)?(?P<bus>[0-9a-fA-F]{2}):(?P<device>[0-9a-fA-F]{2})(?:\.[0-7])?"
)


def pci_key(address: str) -> str:
    """PCI address in one spelling, whatever the number of domain digits and
    with or without function.

    Other text stays as it is.

    >>> pci_key("00000000:1B:00.0"), pci_key("0000:1b:00"), pci_key("1b:00.0"), pci_key("none")
    ('0000:1b:00', '0000:1b:00', '0000:1b:00', 'none')
    """
    match = _PCI.fullmatch(address.strip())
    if match is None:
        return address
    return f"{int(match['domain'] or '0', 16):04x}:{match['bus']}:{match['device']}".lower()


class Inventory:
    """Known devices of each kind with their attributes, by identity.

    A swapped part is a new device; the old one stays until forgotten.

    Any thread may ask. ``learn`` persists when something is new. A GPU at a PCI address takes the
    place of another that was there (a swap), so the old one is no longer expected. What a damaged
    or foreign state file holds is passed over.
    """

    def __init__(self, host: str, state: State) -> None:
        self._host = host
        self._state = state
        self._lock = Lock()
        self._known: dict[str, dict[str, Device]] = {}
        for kind, devices in state.load("inventory").items():
            if isinstance(devices, dict):
                self._known[kind] = {
                    i: Device(host, kind, i, {str(name): str(text) for name, text in a.items()})
                    for i, a in devices.items()
                    if isinstance(a, dict)
                }

    def devices(self, kind: str) -> tuple[Device, ...]:
        """Known devices of a kind in the order they were learned."""
        return tuple(self._known.get(kind, {}).values())

    def learn(self, kind: str, seen: Iterable[Device]) -> None:
        """Remember devices that answer now, with their attributes of now."""
        with self._lock:
            known = dict(self._known.get(kind, {}))
            before = {i: d.attributes for i, d in known.items()}
            for device in seen:
                slot = _slot(device)
                if kind == "gpu" and slot:
                    known = {i: d for i, d in known.items() if i == device.id or _slot(d) != slot}
                known[device.id] = device
            if before == {i: d.attributes for i, d in known.items()}:
                return
            self._known[kind] = known
            self._save()

    def forget(self, kind: str, ids: Iterable[str]) -> None:
        """Stop expecting devices (a part that was taken out for good)."""
        with self._lock:
            gone = set(ids)
            self._known[kind] = {
                i: d for i, d in self._known.get(kind, {}).items() if i not in gone
            }
            self._save()

    def gpu_at(self, pci: str) -> Device | None:
        """The GPU at a PCI address, also when it no longer answers."""
        wanted = pci_key(pci)
        for device in self.devices("gpu"):
            if _slot(device) == wanted:
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
        self._state.save(
            "inventory",
            {k: {i: dict(d.attributes) for i, d in ds.items()} for k, ds in self._known.items()},
        )


def _slot(device: Device) -> str:
    return pci_key(device.attributes.get("pci_bus_id", ""))
