"""Level quick: reads only. The list of its checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from collector.preflight.checks import fabric, gpu, host
from collector.preflight.model import RANK, Machine, Outcome

CHECKS: tuple[Callable[[Machine], Iterator[Outcome]], ...] = (
    *(gpu.present, gpu.recovery, gpu.memory_health, gpu.size, gpu.pcie, gpu.clocks),
    *(gpu.left_over, gpu.mode),
    *(fabric.nvlink, fabric.registered, fabric.ports, fabric.ethernet, fabric.gpudirect),
    *(host.clock, host.memory, host.limits, host.mounts, host.sources),
)


def quick(machine: Machine) -> list[Outcome]:
    """What did not pass, the gravest first."""
    found = [outcome for check in CHECKS for outcome in check(machine)]
    return sorted(found, key=lambda one: -RANK[one.severity])
