"""Faults of one GPU: memory errors, heat, power, clocks, PCIe, and XIDs of any code."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Literal

from simulator.kernel_log import aer_corrected
from simulator.node import Node

Lasts = Annotated[float, "how long it lasts; 0 is until the end"]


def left(lasts: float, spent: float = 0.0) -> float:
    """Seconds until a fault ends that lasts that long in all: forever where ``lasts`` is 0."""
    return max(lasts - spent, 0.0) if lasts else math.inf


def xid(
    node: Node,
    gpu: int,
    *,
    code: Annotated[int, "XID number"] = 31,
    count: Annotated[int, "how many"] = 1,
    every: Annotated[float, "time between them"] = 1.0,
    instance: Annotated[int, "MIG GPU instance, -1 for none"] = -1,
    link: Annotated[int, "NVLink, for 74 and 144-150"] = 0,
    gpc: Annotated[int, "GPC, for 13"] = 2,
    tpc: Annotated[int, "TPC, for 13"] = 4,
) -> Iterator[float]:
    """An XID of any code: its kernel line and its NVML event, and nothing else."""
    for _ in range(count):
        node.xid(gpu, code, instance=instance, link=link, gpc=gpc, tpc=tpc)
        yield every


def ecc_sbe(node: Node, gpu: int, *, count: Annotated[int, "errors"] = 1) -> Iterator[float]:
    """Correctable memory errors, at once."""
    node.cells.error(gpu, corrected=True, count=count)
    yield 0


def ecc_dbe(
    node: Node,
    gpu: int,
    *,
    contained: Annotated[int, "1: XID 94, the GPU stays usable; 0: XID 95, it needs a reset"] = 1,
) -> Iterator[float]:
    """An uncorrectable memory error: XIDs 48, 63 and 94 (or 95 and 154), error counters, a pending
    row remap; the job dies.
    """
    node.cells.error(gpu, corrected=False)
    node.xid(gpu, 48)
    node.cells.remap(gpu)
    node.xid(gpu, 63)
    node.xid(gpu, 94 if contained else 95)
    if not contained:
        node.recover(gpu, 1)
    node.workload.kill(node.time_s, 5)
    yield 0


def ecc_storm(
    node: Node,
    gpu: int,
    *,
    rate: Annotated[float, "correctable errors per second"] = 20.0,
    lasts: Lasts = 0.0,
    dbe: Annotated[float, "uncorrectable error after this time; 0 for none"] = 0.0,
) -> Iterator[float]:
    """A storm of correctable memory errors with XID 92, which may end in an uncorrectable one."""
    node.cells.rate[gpu] += rate
    node.xid(gpu, 92)
    if dbe:
        yield dbe
        yield from ecc_dbe(node, gpu)
    yield left(lasts, dbe)
    node.cells.rate[gpu] -= rate


def remap(
    node: Node,
    gpu: int,
    *,
    state: Annotated[Literal["pending", "exhausted", "failed"], "how far it goes"] = "pending",
) -> Iterator[float]:
    """Row remapping: one row pending (XID 63), a bank without spare rows left, or a remap that
    failed (XID 64 and its flag).
    """
    bank = int(node.rng.integers(node.profile.gpu.banks))
    for _ in range({"pending": 1, "exhausted": 8, "failed": 9}[state]):
        node.cells.error(gpu, corrected=False)
        node.xid(gpu, 63 if node.cells.remap(gpu, bank=bank) else 64)
        yield 0.1
    if state == "failed":
        node.recover(gpu, 1)


def sram_threshold(node: Node, gpu: int) -> Iterator[float]:
    """Uncorrectable SRAM errors beyond the threshold: counters, the flag, XID 48."""
    for _ in range(5):  # more than four unique errors of an address bank
        node.cells.error(gpu, corrected=False, place="sram")
    node.cells.sram_threshold[gpu] = True
    node.xid(gpu, 48)
    yield 0


def thermal(
    node: Node,
    gpu: int,
    *,
    resistance: Annotated[float, "thermal resistance, times the healthy one"] = 2.4,
    lasts: Lasts = 0.0,
) -> Iterator[float]:
    """A fan or cold plate that fails: heat, software and then hardware
    thermal slowdown under load.
    """
    node.gpus.cooling[gpu] *= resistance
    yield left(lasts)
    node.gpus.cooling[gpu] /= resistance


def power_brake(
    node: Node,
    gpu: int,
    *,
    duty: Annotated[float, "share of time, 0-1"] = 1.0,
    lasts: Annotated[float, "how long it lasts; 0 is until the end"] = 30.0,
) -> Iterator[float]:
    """The power brake: clocks halved by an external signal (a power supply lost), reason
    bits and nanosecond counter.
    """
    node.gpus.brake[gpu] = min(max(duty, 0.0), 1.0)
    yield left(lasts)
    node.gpus.brake[gpu] = 0.0


def power_limit(
    node: Node, gpu: int, *, watts: Annotated[float, "enforced limit"] = 400.0, lasts: Lasts = 0.0
) -> Iterator[float]:
    """An enforced power limit below the default, set out of band: the
    requested one does not change.
    """
    node.gpus.limit_w[gpu] = min(
        max(watts, node.profile.gpu.power_min_w), node.profile.gpu.power_limit_w
    )
    yield left(lasts)
    node.gpus.limit_w[gpu] = node.profile.gpu.power_limit_w


def slow_clock(
    node: Node, gpu: int, *, percent: Annotated[float, "loss of clock"] = 10.0, lasts: Lasts = 0.0
) -> Iterator[float]:
    """Silent: the clock is lower and no reason bit says why."""
    factor = 1 - min(max(percent, 0.0), 90.0) / 100
    node.gpus.clock_knob[gpu] *= factor
    yield left(lasts)
    node.gpus.clock_knob[gpu] /= factor


def pcie_narrow(
    node: Node,
    gpu: int,
    *,
    width: Annotated[int, "lanes left"] = 8,
    generation: Annotated[int, "generation left; 0 leaves it"] = 0,
    lasts: Lasts = 0.0,
) -> Iterator[float]:
    """The PCIe link of a GPU comes up with fewer lanes, or a lower generation."""
    node.pcie_width[gpu] = min(max(width, 1), node.profile.gpu.pcie_width)
    node.pcie_generation[gpu] = (
        min(generation, node.profile.gpu.pcie_generation)
        if generation > 0
        else node.pcie_generation[gpu]
    )
    yield left(lasts)
    node.pcie_width[gpu], node.pcie_generation[gpu] = (
        node.profile.gpu.pcie_width,
        node.profile.gpu.pcie_generation,
    )


def pcie_replay(
    node: Node, gpu: int, *, rate: Annotated[float, "replays per second"] = 5.0, lasts: Lasts = 0.0
) -> Iterator[float]:
    """A PCIe link that replays packets, and AER lines in the kernel log."""
    node.pcie_replay_rate[gpu] += rate
    node.kernel.extend(aer_corrected(f"{node.profile.gpu.pci[gpu]}.0"))
    yield left(lasts)
    node.pcie_replay_rate[gpu] -= rate
