"""A node like Linux shows it below /sys and /proc: two sockets, four GPUs and four adapters, each
pair behind a PCIe switch of its own.
"""

from __future__ import annotations

from pathlib import Path

from tests.collector.sources.nccl.discovery.proctree import UUIDS

LINK_LOCAL = "fe80:0000:0000:0000:0a00:00ff:fe00:0001"
MAPPED = "0000:0000:0000:0000:0000:ffff:0a00:0001"  # ::ffff:10.0.0.1
GIDS = {
    0: ("IB/RoCE v1", LINK_LOCAL),
    1: ("RoCE v2", LINK_LOCAL),
    2: ("IB/RoCE v1", MAPPED),
    3: ("RoCE v2", MAPPED),
}
OPEN_MODULE = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n"


class Tree:
    """The folders ``sys`` and ``proc`` below ``root``."""

    def __init__(self, root: Path, *, pairs: int = 4, ethernet: bool = False) -> None:
        self.sysfs, self.proc = root / "sys", root / "proc"
        for n in range(pairs):
            numa = 2 * n // pairs
            self.gpu(n, self.switch(n) / f"0000:{n}4:00.0", numa)
            self.port(f"mlx5_{n}", self.switch(n) / f"0000:{n}5:00.0", numa, ethernet=ethernet)
        for name in ("eth0", "lo", "docker0"):
            self.interface(name)
        self.write(self.proc / "driver/nvidia/version", OPEN_MODULE)
        self.write(self.proc / "sys/kernel/osrelease", "6.8.0-60-generic\n")
        self.write(self.proc / "sys/kernel/hostname", "n1\n")
        self.write(self.proc / "cpuinfo", "flags\t\t: fpu vme\n")
        (self.sysfs / "module").mkdir()

    def switch(self, n: int) -> Path:
        """The upstream and downstream ports above a pair; each pair has a root port of its own."""
        root = self.sysfs / f"devices/pci0000:{n}0"
        return root / f"0000:{n}0:01.0/0000:{n}1:00.0"

    def gpu(self, n: int, at: Path, numa: int) -> None:
        """A GPU behind a downstream port."""
        folder = at.parent / f"0000:{n}2:00.0" / at.name
        self._pci(folder, numa)
        information = f"GPU UUID: \t {UUIDS[n]}\nDevice Minor: \t {n}\n"
        self.write(self.proc / f"driver/nvidia/gpus/{at.name}/information", information)

    def port(
        self,
        name: str,
        at: Path,
        numa: int,
        *,
        ethernet: bool = False,
        state: str = "4: ACTIVE",
        rate: str = "400 Gb/sec (4X NDR)",
    ) -> Path:
        """An adapter with one port behind a downstream port."""
        folder = at.parent / f"0000:{at.name[5]}3:00.0" / at.name
        self._pci(folder, numa)
        port = folder / "infiniband" / name / "ports/1"
        self.write(port / "state", state)
        self.write(port / "rate", rate)
        self.write(port / "link_layer", "Ethernet" if ethernet else "InfiniBand")
        for index, (kind, value) in (GIDS if ethernet else {0: ("", LINK_LOCAL)}).items():
            self.write(port / f"gids/{index}", value)
            self.write(port / f"gid_attrs/types/{index}", kind)
            self.write(port / f"gid_attrs/ndevs/{index}", "eth0" if ethernet else "")
        link = folder / "infiniband" / name / "device"
        link.symlink_to(folder)
        entry = self.sysfs / "class/infiniband" / name
        entry.parent.mkdir(parents=True, exist_ok=True)
        entry.symlink_to(folder / "infiniband" / name)
        return port

    def interface(self, name: str, state: str = "up") -> None:
        """A net device."""
        self.write(self.sysfs / "class/net" / name / "operstate", state)
        self.write(self.sysfs / "class/net" / name / "mtu", "1500")

    def ports(self, name: str) -> Path:
        """The folder of a device's port."""
        return self.sysfs / "class/infiniband" / name / "ports/1"

    def bridge(self, name: str, config: bytes) -> None:
        """A PCI bridge with its configuration space."""
        folder = self.sysfs / "bus/pci/devices" / name
        self.write(folder / "class", "0x060400")
        (folder / "config").write_bytes(config)

    def nvswitch(self) -> None:
        """One NVSwitch, as a PCI device."""
        folder = self.sysfs / "bus/pci/devices/0000:c0:00.0"
        self.write(folder / "vendor", "0x10de")
        self.write(folder / "class", "0x068000")

    @staticmethod
    def write(path: Path, text: str) -> None:
        """A file with its folders."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def _pci(self, folder: Path, numa: int) -> None:
        self.write(folder / "numa_node", f"{numa}\n")
        self.write(folder / "local_cpulist", f"{numa * 8}-{numa * 8 + 7}\n")
        link = self.sysfs / "bus/pci/devices" / folder.name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(folder)
