"""How near two PCI devices are, as NCCL and `nvidia-smi topo -m` have it, from their paths below
/sys/devices alone.

PIX: behind one switch. PXB: several bridges, not the host's. PHB: one host bridge. NODE: host
bridges of one NUMA node. SYS: another NUMA node. (`nvidia-smi topo --help`; NCCL
src/graph/topo.h has the same order.)
"""

from __future__ import annotations

import re
from itertools import takewhile
from typing import Literal

Distance = Literal["PIX", "PXB", "PHB", "NODE", "SYS"]
ORDER: tuple[Distance, ...] = ("PIX", "PXB", "PHB", "NODE", "SYS")

_ROOT = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_BRIDGES_OF_A_SWITCH = 2  # up- and downstream port: NCCL climbs both at once (src/graph/xml.cc)


def steps(path: str) -> list[str]:
    """The host bridge, the bridges and the device of a path; none where it has no host bridge.

    >>> steps("/sys/devices/pci0000:3a/0000:3a:01.0/0000:3b:00.0")
    ['pci0000:3a', '0000:3a:01.0', '0000:3b:00.0']
    """
    parts = path.strip("/").split("/")
    start = next((i for i, part in enumerate(parts) if _ROOT.fullmatch(part)), len(parts))
    return parts[start:]


def distance(a: str, b: str, numa: tuple[int, int] = (-1, -1)) -> Distance | None:
    """Between two devices by their paths, ``numa`` their NUMA nodes (-1: unknown); None where it
    is not known.

    >>> root, switch = "pci0000:00", "0000:00:01.0/0000:01:00.0"
    >>> distance(
    ...     f"{root}/{switch}/0000:02:00.0/0000:03:00.0",
    ...     f"{root}/{switch}/0000:02:01.0/0000:04:00.0",
    ... )
    'PIX'
    >>> distance("pci0000:00/0000:00:01.0/0000:01:00.0", "pci0000:00/0000:00:02.0/0000:05:00.0")
    'PHB'
    >>> distance("pci0000:00/0000:01:00.0", "pci0000:80/0000:81:00.0", (0, 1))
    'SYS'
    """
    one, two = steps(a), steps(b)
    if not one or not two:
        return None
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, two, strict=False)))
    if common > 1:
        below = max(len(one), len(two)) - common - 1  # bridges between the common one and a device
        return "PIX" if below < _BRIDGES_OF_A_SWITCH else "PXB"
    if common == 1:
        return "PHB"
    if min(numa) < 0:
        return None
    return "NODE" if numa[0] == numa[1] else "SYS"


def within(found: Distance | None, limit: Distance) -> bool:
    """Whether a distance is known, and at most a limit."""
    return found is not None and ORDER.index(found) <= ORDER.index(limit)
