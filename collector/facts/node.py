"""One node's facts, put together from /sys and /proc."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from collector.facts.cpus import cpu_list
from collector.facts.model import Interface, NodeFacts, PciGpu
from collector.facts.rdma import rdma_ports
from collector.sources.infiniband.tree import entries, read
from collector.sources.nccl.discovery import procfs

MAX_BRIDGES = 4096
NVIDIA, BRIDGE = "0x10de", "0x068000"  # vendor and class of an NVSwitch (PCI ID database)
CHANNELS = "nvidia-caps-imex-channels"
IMEX = "fs/cgroup/system.slice/nvidia-imex.service/cgroup.procs"
# dma-buf of GPU memory: kernel 5.12 and the open kernel module (NVIDIA, GPUDirect RDMA guide).
DMABUF_KERNEL = (5, 12)
ACS, NEXT_SHIFT, CONFIG_BYTES, CONTROL = 0x000D, 20, 4096, 6  # PCIe base specification, 7.7.11


def node_facts(host: str, proc: Path, sysfs: Path) -> NodeFacts:
    """What the trees show. Never raises: what cannot be read is unknown."""
    try:
        ports = rdma_ports(sysfs)
    except OSError:
        ports = ()
    peermem = _peermem(sysfs)
    driver = _text(proc / "driver/nvidia/version")
    dmabuf = _dmabuf(driver, _text(proc / "sys/kernel/osrelease"))
    return NodeFacts(
        host,
        ports,
        tuple(_interfaces(sysfs)),
        tuple(_gpus(proc, sysfs)),
        gpudirect=_any(peermem, dmabuf),
        peermem=peermem,
        nvswitch=_nvswitch(sysfs),
        imex=_imex(proc, sysfs),
        acs=tuple(_acs(sysfs)),
        driver=_version(driver),
        virtual=_virtual(proc),
    )


def facts_of_host(proc: Path, sysfs: Path) -> Callable[[str], NodeFacts | None]:
    """Facts of this node by its name, as logs have it, short or long; None for any other."""
    own = _text(proc / "sys/kernel/hostname").strip().partition(".")[0]

    @cache
    def facts() -> NodeFacts:
        return node_facts(own, proc, sysfs)

    return lambda host: facts() if own and host.partition(".")[0] == own else None


def _any(*known: bool | None) -> bool | None:
    """Whether one is; None where that depends on one that is not known."""
    return True if any(known) else None if None in known else False


def _interfaces(sysfs: Path) -> Iterator[Interface]:
    folder = sysfs / "class/net"
    for name in _names(folder):
        state, carrier = read(folder / name / "operstate"), read(folder / name / "carrier")
        up = {"up": True, "down": False}.get(state, carrier == "1" if carrier else None)
        mtu = read(folder / name / "mtu")
        yield Interface(name, up, int(mtu) if mtu.isdecimal() else 0)


def _gpus(proc: Path, sysfs: Path) -> Iterator[PciGpu]:
    folder = proc / "driver/nvidia/gpus"
    for address in _names(folder):
        found = procfs.minors(_text(folder / address / "information").encode())
        if found is None:
            continue
        device = sysfs / "bus/pci/devices" / address
        numa = read(device / "numa_node")
        path = str(device.resolve()) if device.exists() else ""
        cpus = cpu_list(_text(device / "local_cpulist"))
        number = int(numa) if numa.lstrip("-").isdecimal() else -1
        yield PciGpu(found[1], found[0], address.lower(), path, number, cpus)


def _peermem(sysfs: Path) -> bool | None:
    if not (sysfs / "module").is_dir():
        return None
    memory = sysfs / "kernel/mm/memory_peers/nv_mem/version"
    return memory.exists() or (sysfs / "module/nvidia_peermem").is_dir()


def _dmabuf(driver: str, release: str) -> bool | None:
    match = re.match(r"(\d{1,3})\.(\d{1,3})", release)
    if not driver or match is None:
        return None
    return "Open Kernel Module" in driver and (int(match[1]), int(match[2])) >= DMABUF_KERNEL


def _nvswitch(sysfs: Path) -> bool | None:
    """Up to Hopper they are PCI devices of the node; of a node without any it is not known."""
    folder = sysfs / "bus/pci/devices"
    return (
        any(
            read(folder / name / "vendor") == NVIDIA and read(folder / name / "class") == BRIDGE
            for name in _names(folder)
        )
        or None
    )


def _imex(proc: Path, sysfs: Path) -> bool | None:
    """Whether the service runs; None on a node without IMEX channels, or with IMEX elsewhere."""
    processes = sysfs / IMEX
    if CHANNELS not in _text(proc / "devices"):
        return None
    return bool(_text(processes).strip()) if processes.parent.is_dir() else None


def _acs(sysfs: Path) -> Iterator[str]:
    """Bridges whose ACS control is not zero: then peer traffic goes through the root complex. The
    extended part of ``config`` needs CAP_SYS_ADMIN; without it nothing is known.
    """
    folder = sysfs / "bus/pci/devices"
    for name in _names(folder)[:MAX_BRIDGES]:
        if read(folder / name / "class").startswith("0x0604"):
            try:
                config = (folder / name / "config").read_bytes()
            except OSError:
                continue
            if acs_control(config):
                yield name


def acs_control(config: bytes) -> int:
    """The control register of access control services in a PCIe configuration space, 0 where it
    has none.
    """
    at, seen = 0x100, 0
    while 0x100 <= at <= min(len(config), CONFIG_BYTES) - 8 and seen < MAX_BRIDGES:
        header = int.from_bytes(config[at : at + 4], "little")
        if header & 0xFFFF == ACS:
            return int.from_bytes(config[at + CONTROL : at + CONTROL + 2], "little")
        at, seen = header >> NEXT_SHIFT, seen + 1
    return 0


def _virtual(proc: Path) -> bool | None:
    text = _text(proc / "cpuinfo")
    return " hypervisor" in text if text else None


def _version(driver: str) -> str:
    match = re.search(r"\b(\d{3}\.\d{1,3}(?:\.\d{1,3})?)\b", driver)
    return match[1] if match else ""


def _names(folder: Path) -> list[str]:
    try:
        return [name for name, _ in entries(folder)]
    except OSError:
        return []


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return os.read(file.fileno(), 1 << 16).decode(errors="replace")
    except OSError:
        return ""
