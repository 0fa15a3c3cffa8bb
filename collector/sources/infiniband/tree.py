"""The tree below /sys/class/infiniband: which ports there are, who they are, and what is
slow to change about them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from collector.sources.infiniband import text
from pipeline.catalog import facts_of

INFINIBAND, ETHERNET = "InfiniBand", "Ethernet"  # of link_layer (drivers/infiniband/core/sysfs.c)
# names of devices and net devices; anything else is not the kernel's
_NAME = re.compile(r"[A-Za-z0-9][\w.:-]{0,63}")


@dataclass(frozen=True, slots=True)
class SysfsPort:
    """A port in the tree.

    ``inode`` of its device's entry changes when the driver makes the device again.
    """

    device: str
    number: int
    path: Path
    inode: int

    @property
    def name(self) -> str:
        """Such as mlx5_0/1."""
        return f"{self.device}/{self.number}"

    @property
    def device_path(self) -> Path:
        """The device's folder."""
        return self.path.parent.parent


def entries(folder: Path) -> tuple[tuple[str, int], ...]:
    """Names and inodes in a folder, sorted; none where it does not exist.

    Other OSErrors are the caller's.
    """
    try:
        with os.scandir(folder) as found:
            return tuple(sorted((entry.name, entry.inode()) for entry in found))
    except FileNotFoundError:
        return ()


def places(folder: Path, devices: Iterable[tuple[str, int]]) -> list[SysfsPort]:
    """The ports of these devices, in the order of their names, numbers as numbers.

    A device that cannot be listed has none.
    """
    found: list[SysfsPort] = []
    for device, inode in devices:
        try:
            numbers = [
                name
                for name, _ in entries(folder / device / "ports")
                if name.isdecimal() and len(name) <= 3
            ]
        except OSError:
            continue
        if _NAME.fullmatch(device):
            found += (
                SysfsPort(device, int(name), folder / device / "ports" / name, inode)
                for name in numbers
            )
    return sorted(found, key=lambda place: (_natural(place.device), place.number))


def is_there(place: SysfsPort) -> bool:
    """Whether a port can still be looked at.

    A driver that goes takes files away while they are read: where this answers no, what was read
    before it may lack anything.
    """
    try:
        return place.path.is_dir()
    except OSError:
        return False


def is_virtual(place: SysfsPort) -> bool:
    """Whether a port is of a virtual function or a subfunction whose physical one this host has too
    (Documentation/ABI/testing/sysfs-bus-pci of Linux; sfnum of mlx5's auxiliary devices): a virtual
    machine sees no such link.
    """
    device = place.device_path / "device"
    return os.path.lexists(device / "physfn") or os.path.lexists(device / "sfnum")


def matches(wanted: Sequence[str], attributes: Mapping[str, str], identity: str = "") -> bool:
    """Whether a port is meant by one of some names: ``mlx5_0``, ``mlx5_*``, ``mlx5_0/1``,
    or a GUID in any spelling.
    """
    device, port = attributes.get("device", ""), attributes.get("port", "")
    guids = {identity, attributes.get("port_guid"), attributes.get("node_guid")} - {"", None}
    return any(
        fnmatchcase(device, name)
        or fnmatchcase(f"{device}/{port}", name)
        or name == identity
        or text.guid(name) in guids
        for name in wanted
    )


def facts(place: SysfsPort, net_root: Path) -> dict[str, str]:
    """Slow facts of a port by attribute; what cannot be read is left out."""
    known = {"device": place.device, "port": str(place.number), "epoch": str(place.inode)}
    net = net_device(place)
    folders = {"port": place.path, "net": net_root / net}
    for row in facts_of("ib_port"):
        if not row.read or (row.read.startswith("net ") and not net):
            continue
        where, _, file = row.read.rpartition(" ")
        value = read(folders.get(where, place.device_path) / file)
        if value:
            known[row.name] = value
    known["node_guid"] = text.guid(known.get("node_guid", ""))
    known["net_device"] = net
    known["pci_bus_id"] = _pci(place)
    if known.get("link_layer") != ETHERNET:
        known["port_guid"] = text.port_guid(known.get("gid", ""))
    return {name: value for name, value in known.items() if value}


def identity(attributes: Mapping[str, str]) -> str:
    """Who a port is: its port GUID; on Ethernet, or while it has none, the node
    GUID and the port's number.

    Where that is zero too (some software devices), the PCI address, and at last the
    device's name take its place.

    >>> identity({"node_guid": "0xec0d9a0300bfc1e2", "port": "1", "device": "mlx5_0"})
    '0xec0d9a0300bfc1e2/1'
    """
    owner = attributes.get("node_guid") or attributes.get("pci_bus_id") or attributes["device"]
    return attributes.get("port_guid") or f"{owner}/{attributes['port']}"


def pcie(place: SysfsPort) -> dict[str, float]:
    """Width and generation of the adapter's PCIe link by gauge, what is not known left out: a
    virtual function has no link of its own.

    What adapter and slot can do together is the lesser of what the adapter and the bridge above it
    are capable of, each of which knows of itself alone (Documentation/ABI/testing/sysfs-bus-pci of
    Linux: max_link_width, max_link_speed).
    """
    device = place.device_path / "device"
    bridge = device.resolve().parent
    found: dict[str, float] = {}
    for what, file, parse in (
        ("width", "link_width", text.lanes),
        ("generation", "link_speed", text.generation),
    ):
        most = [
            value for folder in (device, bridge) if (value := parse(read(folder / f"max_{file}")))
        ]
        if most and (now := parse(read(device / f"current_{file}"))):
            found |= {f"pcie_{what}_current": now, f"pcie_{what}_maximum": min(most)}
    return found


def net_device(place: SysfsPort) -> str:
    """The net device of a port, empty where it has none: by the port's GID table, else by the
    device's only or matching one.
    """
    name = read(place.path / "gid_attrs" / "ndevs" / "0")
    if _NAME.fullmatch(name):
        return name
    folder = place.device_path / "device" / "net"
    try:
        names = [name for name, _ in entries(folder) if _NAME.fullmatch(name)]
    except OSError:
        return ""
    # dev_port counts from 0 (Documentation/ABI/testing/sysfs-class-net of Linux).
    of_port = [name for name in names if read(folder / name / "dev_port") == str(place.number - 1)]
    return names[0] if len(names) == 1 else next(iter(of_port), "")


def bond(net: Path) -> str:
    """The bond that a net device, a folder of sysfs, is in; empty where it is in none."""
    try:
        return (net / "master").readlink().name if (net / "master" / "bonding").is_dir() else ""
    except OSError:
        return ""


def read(path: Path) -> str:
    """First line of a small file, empty where it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        return text.fact(os.read(fd, 4096))
    except OSError:
        return ""
    finally:
        os.close(fd)


def _pci(place: SysfsPort) -> str:
    device = place.device_path / "device"
    try:
        lines = (device / "uevent").read_text(errors="replace")[:4096].splitlines()
    except OSError:
        lines = []
    slot = next((line.partition("=")[2] for line in lines if line.startswith("PCI_SLOT_NAME=")), "")
    return text.pci_address(slot) or text.pci_address(device.resolve().name)


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort key in which mlx5_10 comes after mlx5_9."""
    return [
        (int(part), "") if part.isdecimal() else (-1, part)
        for part in re.split(r"(\d+)", name)
        if part
    ]
