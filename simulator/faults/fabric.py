"""Faults of links: NVLinks of a GPU, InfiniBand ports and their adapters."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np

from simulator.fabric_reports import (
    DEGRADED_BANDWIDTH,
    HEALTHY,
    IN_PROGRESS,
    LIMITED_CAPACITY,
    NVML_ERROR_UNKNOWN,
    ROUTE_RECOVERY,
    ROUTE_UNHEALTHY,
    UNHEALTHY,
)
from simulator.faults.gpu import Lasts, left
from simulator.kernel_log import mlx5_health, mlx5_link
from simulator.links import HEALTHY_BER, PCIE_LANES
from simulator.node import Node

RAMP_S = 5.0  # how often a ramp moves on


def nvlink_errors(
    node: Node,
    gpu: int,
    *,
    link: Annotated[int, "which link"] = 0,
    rate: Annotated[float, "replays per second"] = 5.0,
    lasts: Lasts = 0.0,
) -> Iterator[float]:
    """An NVLink that replays, recovers and sees CRC errors; on NVLink 5 also a fatter
    tail of the FEC history.
    """
    where = gpu, link % node.profile.nvlink.links
    node.nvlinks.error_rate[where] += rate
    node.nvlinks.fec_knob[where] = 10.0
    yield left(lasts)
    node.nvlinks.error_rate[where] -= rate
    node.nvlinks.fec_knob[where] = 1.0


def nvlink_down(
    node: Node, gpu: int, *, link: Annotated[int, "which link"] = 0, lasts: Lasts = 0.0
) -> Iterator[float]:
    """An NVLink goes inactive with XID 74 (NVLink 5: 149)."""
    link %= node.profile.nvlink.links
    node.nvlinks.up[gpu, link] = False
    node.xid(gpu, 149 if node.profile.nvlink.version >= 5 else 74, link=link)
    yield left(lasts)
    node.nvlinks.up[gpu, link] = True


def nvlink_fabric(
    node: Node,
    gpu: int,
    *,
    kind: Annotated[
        Literal["unhealthy", "failed", "unregistered", "degraded", "recovering"],
        "what NVML reports",
    ] = "unhealthy",
    lasts: Lasts = 0.0,
) -> Iterator[float]:
    """What NVML reports of a GPU in the NVLink fabric: its routes unhealthy, its registration
    failed or in progress (of all GPUs: as without Fabric Manager), its bandwidth degraded, or a
    recovery of its routes.
    """
    reports = node.fabric
    match kind:
        case "unhealthy":
            reports.condition(gpu, ROUTE_UNHEALTHY, UNHEALTHY)
        case "failed":
            reports.status[gpu] = NVML_ERROR_UNKNOWN
        case "unregistered":
            reports.state[gpu] = IN_PROGRESS
        case "degraded":
            reports.condition(gpu, DEGRADED_BANDWIDTH, LIMITED_CAPACITY)
        case "recovering":
            reports.condition(gpu, ROUTE_RECOVERY, HEALTHY)
    yield left(lasts)
    reports.restore(gpu)


def fabric_manager(node: Node, *, lasts: Lasts = 0.0) -> Iterator[float]:
    """The service of Fabric Manager stops; GPUs that have registered with the fabric stay so."""
    node.fabric.manager_runs = False
    yield left(lasts)
    node.fabric.manager_runs = True


def symbol_errors(
    node: Node,
    port: int,
    *,
    ber: Annotated[float, "bit error ratio at the end of the ramp"] = 1e-12,
    ramp: Annotated[float, "time from the healthy ratio to it"] = 0.0,
    lasts: Lasts = 0.0,
) -> Iterator[float]:
    """A bit error ratio that rises: symbol errors at signalling rate times the
    ratio, the port stays up.
    """
    steps = max(1, math.ceil(ramp / RAMP_S))
    for step in range(1, steps + 1):
        node.ports.ber[port] = HEALTHY_BER * (ber / HEALTHY_BER) ** (step / steps)
        yield RAMP_S if ramp else 0
    yield left(lasts, ramp)
    node.ports.ber[port] = HEALTHY_BER


def link_flap(
    node: Node,
    port: int,
    *,
    down: Annotated[float, "time down"] = 30.0,
    times: Annotated[int, "how often"] = 3,
    every: Annotated[float, "time up in between"] = 120.0,
) -> Iterator[float]:
    """A port that goes down and comes back, again and again: state, link_downed,
    carrier changes, kernel lines.
    """
    for _ in range(times):
        _set(node, port, up=False)
        yield down
        _set(node, port, up=True)
        yield every


def link_down(node: Node, port: int, *, lasts: Lasts = 0.0) -> Iterator[float]:
    """A port that goes down and stays down."""
    _set(node, port, up=False)
    yield left(lasts)
    _set(node, port, up=True)


def counter_saturated(
    node: Node,
    port: int,
    *,
    counter: Annotated[Literal["symbol", "downed", "recovery", "receive"], "which one"] = "symbol",
) -> Iterator[float]:
    """A counter that reached the end of its register and sticks there."""
    node.ports.errors[counter][port] = np.uint64(2**20)
    yield 0


def nic_lost(node: Node, port: int, *, lasts: Lasts = 0.0) -> Iterator[float]:
    """An adapter whose firmware dies: health line, link down, and it vanishes from sysfs."""
    node.kernel.append(mlx5_health(node.profile.ports.pci[port]))
    _set(node, port, up=False)
    yield 3.0
    node.ports.present[port] = False
    yield left(lasts)
    node.ports.present[port] = True
    _set(node, port, up=True)


def nic_narrow(
    node: Node, port: int, *, width: Annotated[int, "lanes left"] = 8, lasts: Lasts = 0.0
) -> Iterator[float]:
    """The PCIe link of an adapter comes up with fewer lanes."""
    node.ports.pcie_width[port] = min(max(width, 1), PCIE_LANES)
    yield left(lasts)
    node.ports.pcie_width[port] = PCIE_LANES


def _set(node: Node, port: int, *, up: bool) -> None:
    ports = node.profile.ports
    if bool(node.ports.up[port]) is up:
        return
    (node.ports.raise_ if up else node.ports.lower)(port)
    node.kernel.append(mlx5_link(ports.pci[port], ports.net[port], up=up))
