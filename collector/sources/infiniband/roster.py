"""Which ports a node has: those in the tree, those remembered, those declared, in rows that stay
while the process lives.

A port that vanishes keeps its row, absent. A new port in the slot of an old one (same PCI address
and number) took its place: the old one is forgotten. Names are not identity: when they moved, a
missing port goes by its identity, so that no two bear one name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from collector.node.inventory import Inventory
from collector.sources.infiniband import tree
from collector.sources.infiniband.tree import SysfsPort
from pipeline.align import Rows
from pipeline.frame import Device

KIND = "ib_port"
DECLARED, LEARNED = "declared", "learned"
# Facts of a port that stay true while they cannot be read.
LASTING = ("node_guid", "port_guid", "pci_bus_id")


class Roster:
    """The devices of one node's ports. ``rows.devices`` is the order of the frame's columns."""

    def __init__(
        self,
        host: str,
        inventory: Inventory,
        expected: Sequence[str],
        ignore: Sequence[str],
    ) -> None:
        self._host = host
        self._inventory = inventory
        self._expected = tuple(expected)
        self._ignore = tuple(ignore)
        self._identity = {
            owner: d.id for d in inventory.devices(KIND) if (owner := _owner(d.attributes))
        }
        self.rows = Rows(self._fresh(d) for d in inventory.devices(KIND) if not self._ignored(d))

    def device(
        self, place: SysfsPort, attributes: dict[str, str], taken: set[str]
    ) -> Device | None:
        """The device of a port in the tree; None for one that is ignored.

        ``taken``: identities of the ports before it.

        A port keeps the identity it was first seen with, and the facts that others know it by,
        although a driver that is just starting or going may show no GUID.
        """
        identity = tree.identity(attributes)
        if owner := _owner(attributes):
            identity = self._identity.setdefault(owner, identity)
        if identity in taken:  # functions of one adapter that share a GUID
            identity = f"{identity}@{place.name}"
        known = next((d for d in self.rows.devices if d.id == identity), None)
        device = Device(self._host, KIND, identity, {**_lasting(known, attributes), **attributes})
        if self._ignored(device):
            return None
        taken.add(identity)
        learned = known is not None and known.attributes.get("expected_by") == LEARNED
        return self._expect(device, learned=learned and not tree.is_virtual(place))

    def activated(self, device: Device) -> Device:
        """The same port, now that it was seen active: it is expected to be so from now on."""
        return self._expect(device, learned=True)

    def place(self, present: Sequence[Device]) -> list[int]:
        """Columns of the ports that are there; remembers them, and settles what
        became of those that are not.
        """
        here = {device.id for device in present}
        slots = {_pci_slot(device) for device in present} - {""}
        names = {_name(device) for device in present}
        gone = [device for device in self.rows.devices if device.id not in here]
        swapped = [d for d in gone if _pci_slot(d) in slots or self._stood_in(d, present)]
        swapped += [d for d in gone if not _pci_slot(d) and _name(d) in names and d not in swapped]
        if swapped:
            self._inventory.forget(KIND, [device.id for device in swapped])
            self.rows = Rows(device for device in self.rows.devices if device not in swapped)
        nameless = [_unnamed(d) for d in gone if d not in swapped and _name(d) in names]
        missing = [d for d in self._declared(present) if self.rows.row(d) is None]
        columns = self.rows.place([*present, *nameless, *missing])[: len(present)]
        self._inventory.learn(KIND, present)
        return columns

    def _declared(self, present: Sequence[Device]) -> list[Device]:
        """Stand-ins for declared ports that nobody has ever seen."""
        known = [*present, *self.rows.devices]
        unseen = [
            name
            for name in self._expected
            if not any(tree.matches([name], d.attributes, d.id) for d in known)
        ]
        return [self._fresh(_stand_in(self._host, name)) for name in unseen]

    def _stood_in(self, device: Device, present: Sequence[Device]) -> bool:
        """Whether this stands in for a declared port that is there now."""
        return device.id in self._expected and any(
            tree.matches([device.id], d.attributes, d.id) for d in present
        )

    def _fresh(self, device: Device) -> Device:
        return self._expect(device, learned=device.attributes.get("expected_by") == LEARNED)

    def _expect(self, device: Device, *, learned: bool) -> Device:
        by = ""
        if self._expected:
            by = DECLARED if tree.matches(self._expected, device.attributes, device.id) else ""
        elif learned:
            by = LEARNED
        facts = {name: value for name, value in device.attributes.items() if name != "expected_by"}
        return Device(device.host, KIND, device.id, {**facts, "expected_by": by} if by else facts)

    def _ignored(self, device: Device) -> bool:
        return tree.matches(self._ignore, device.attributes, device.id)


def _lasting(known: Device | None, attributes: Mapping[str, str]) -> dict[str, str]:
    """What was known of a port and stays true of it, unless its link layer was switched."""
    before = known.attributes if known else {}
    layer = before.get("link_layer")
    if attributes.get("link_layer", layer) != layer:
        return {}
    return {name: before[name] for name in LASTING if name in before}


def _owner(attributes: Mapping[str, str]) -> tuple[str, str] | None:
    """Adapter and number of a port, which can be read even while its own GUID cannot."""
    guid = attributes.get("node_guid")
    return (guid, attributes["port"]) if guid and "port" in attributes else None


def _pci_slot(device: Device) -> str:
    # with its function: the ports of one adapter differ in nothing else
    address = device.attributes.get("pci_bus_id", "")
    return f"{address}/{device.attributes.get('port')}" if address else ""


def _name(device: Device) -> str:
    return f"{device.attributes.get('device')}/{device.attributes.get('port')}"


def _unnamed(device: Device) -> Device:
    return Device(device.host, KIND, device.id, {**device.attributes, "device": device.id})


def _stand_in(host: str, name: str) -> Device:
    device, _, port = name.partition("/")
    return Device(host, KIND, name, {"device": device, "port": port or "1"})
