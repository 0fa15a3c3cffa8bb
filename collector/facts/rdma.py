"""Ports of RDMA devices with their GID tables, from /sys/class/infiniband.

Files: Documentation/ABI/stable/sysfs-class-infiniband of Linux; ``tc/N/traffic_class`` is
MLNX_OFED's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from collector.facts.model import Gid, RdmaPort
from collector.sources.infiniband.tree import ETHERNET, SysfsPort, entries, net_device, places, read

MAX_GIDS = 256  # of a port: mlx5 has 256 with RoCE
ZERO = "0000:0000:0000:0000:0000:0000:0000:0000"
_RATE = re.compile(r"(\d{1,5}(?:\.\d)?) Gb/sec")
_CLASS = re.compile(r"tclass=(\d{1,3})")


def rdma_ports(sysfs: Path) -> tuple[RdmaPort, ...]:
    """All ports, in the order of their names; none on a node without RDMA. OSError where the class
    folder cannot be listed.
    """
    folder = sysfs / "class/infiniband"
    return tuple(_port(place, sysfs / "class/net") for place in places(folder, entries(folder)))


def _port(place: SysfsPort, net: Path) -> RdmaPort:
    device = place.device_path / "device"
    interface = net_device(place)
    rate = _RATE.match(read(place.path / "rate"))
    state = read(place.path / "state")
    return RdmaPort(
        place.device,
        place.number,
        active=state.startswith("4:"),
        ethernet=read(place.path / "link_layer") == ETHERNET,
        gigabits=float(rate[1]) if rate else 0.0,
        interface=interface,
        mtu=_number(read(net / interface / "mtu"), 0) if interface else 0,
        gids=tuple(_gids(place.path)),
        path=str(_function(device)),
        numa=_number(read(device / "numa_node"), -1),
        traffic_class=_traffic_class(place),
    )


def _gids(port: Path) -> Iterator[Gid]:
    """Entries that are in use: an empty index, or one of another network namespace, reads as
    EINVAL.
    """
    try:
        with os.scandir(port / "gids") as found:
            indices = sorted(int(one.name) for one in found if one.name.isdecimal())
    except OSError:
        return
    for index in indices[:MAX_GIDS]:
        value = read(port / "gids" / str(index))
        if value and value != ZERO:
            attributes = port / "gid_attrs"
            yield Gid(
                index,
                read(attributes / "types" / str(index)),
                value,
                read(attributes / "ndevs" / str(index)),
            )


def _traffic_class(place: SysfsPort) -> int | None:
    match = _CLASS.search(read(place.device_path / "tc" / str(place.number) / "traffic_class"))
    return int(match[1]) if match else None


def _function(device: Path) -> Path:
    """A virtual function is where its physical one is."""
    physical = device / "physfn"
    return (physical if physical.exists() else device).resolve()


def _number(text: str, otherwise: int) -> int:
    try:
        return int(text)
    except ValueError:
        return otherwise
