"""A /sys tree with InfiniBand and RoCE ports, as the kernel lays it out,
in a folder of the test.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping
from pathlib import Path

from pipeline.catalog import fields_of

GUID = 0xEC0D9A0300BFC1E0  # of the first port; NVIDIA's prefix

STATES = {1: "DOWN", 2: "INIT", 3: "ARMED", 4: "ACTIVE"}
PHYSICAL = {1: "Sleep", 2: "Polling", 3: "Disabled", 4: "PortConfigurationTraining", 5: "LinkUp"}


def counter_files(kind: str) -> dict[str, str]:
    """Field to file of all counters that the catalogue reads from ``sysfs`` or ``net``."""
    ways = {
        f.name: f.read.split(" | ")[0].split(" ")
        for f in fields_of("ib_port")
        if f.type == "counter"
    }
    return {name: way[1] for name, way in ways.items() if way[0] == kind}


def spelt(guid: int) -> str:
    """A GUID as the kernel prints it."""
    digits = f"{guid:016x}"
    return ":".join(digits[i : i + 4] for i in range(0, 16, 4))


def opened(folder: Path) -> list[str]:
    """What this process holds open below a folder."""
    targets: list[str] = []
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # other threads open and close too
            targets.append(str(link.readlink()))
    return [target for target in targets if target.startswith(f"{folder}/")]


class Sysfs:
    """Writes the tree.

    Files are written in place, as the kernel's values change under an open descriptor.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.devices = root / "class" / "infiniband"
        self.net = root / "class" / "net"

    def port(self, device: str = "mlx5_0", number: int = 1) -> Path:
        return self.devices / device / "ports" / str(number)

    def add(
        self,
        device: str = "mlx5_0",
        *,
        number: int = 1,
        guid: int = GUID,
        layer: str = "InfiniBand",
        pci: str = "0000:18:00.0",
        net: str = "",
        counters: Mapping[str, int | str] | None = None,
    ) -> Path:
        """One port, active at 4X NDR, every counter 0 but those given by field name."""
        port = self.port(device, number)
        ethernet = layer == "Ethernet"
        gid = f"fe80:0000:0000:0000:{spelt(guid + (0x10000 if ethernet else 0))}"
        self.write(port / "state", "4: ACTIVE")
        self.write(port / "phys_state", "5: LinkUp")
        self.write(port / "rate", "400 Gb/sec (4X NDR)")
        self.write(port / "link_layer", layer)
        self.write(port / "lid", "0x5")
        self.write(port / "sm_lid", "0x1")
        self.write(port / "gids" / "0", gid)
        self.write(port / "hw_counters" / "lifespan", "10")
        home = self.devices / device
        self.write(home / "node_guid", spelt(guid))
        self.write(home / "fw_ver", "28.39.1002")
        self.write(home / "board_id", "MT_0000000838")
        self.write(home / "hca_type", "MT4129")
        self.write(home / "device" / "numa_node", "1")
        if pci:
            self.write(home / "device" / "uevent", f"DRIVER=mlx5_core\nPCI_SLOT_NAME={pci}")
        if net:
            self.write(port / "gid_attrs" / "ndevs" / "0", net)
            self.write(self.net / net / "mtu", "4200")
        for name, file in counter_files("sysfs").items():
            self.write(port / file, (counters or {}).get(name, 0))
        if net and ethernet:
            for name, file in counter_files("net").items():
                self.write(self.net / net / file, (counters or {}).get(name, 0))
        return port

    def set(self, field: str, value: int | str, device: str = "mlx5_0", number: int = 1) -> None:
        """Another value of a counter of sysfs."""
        self.write(self.port(device, number) / counter_files("sysfs")[field], value)

    def state(self, code: int, physical: int, device: str = "mlx5_0", number: int = 1) -> None:
        self.write(self.port(device, number) / "state", f"{code}: {STATES[code]}")
        self.write(self.port(device, number) / "phys_state", f"{physical}: {PHYSICAL[physical]}")

    def remove(self, device: str) -> None:
        """What unplugging or unloading the driver leaves."""
        shutil.rmtree(self.devices / device)

    @staticmethod
    def write(path: Path, value: int | str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("r+" if path.exists() else "w") as file:
            file.truncate(0)
            file.write(f"{value}\n")
