"""From configuration and world to the sources that are read: the one list of them, for the agent and for ``tocsin read``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from collector.config import Config
from collector.inventory import Inventory
from collector.sources.infiniband import InfinibandSource
from collector.sources.kmsg import KernelLogSource
from collector.state import State
from collector.world import World
from pipeline.engine import Schedule
from pipeline.frame import Device
from pipeline.interfaces import Source
from pipeline.selfmetrics import SelfMetrics


@dataclass(frozen=True, slots=True)
class Parts:
    """What sources share. ``with_topology`` puts rack, leaf and rail on a device; ``saved`` logs are finished, and read once as they stand."""

    config: Config
    world: World
    inventory: Inventory
    state: State
    own: SelfMetrics
    with_topology: Callable[[Device], Device]
    saved: bool = False


def schedules(parts: Parts, names: Collection[str] | None = None) -> Iterator[Schedule]:
    """Every source that is switched on (or those named), with its period and deadline."""
    for name, make in SOURCES.items():
        section = getattr(parts.config.sources, name)
        if section.enabled if names is None else name in names:
            yield Schedule(make(parts), float(section.period), float(section.deadline))


def _infiniband(parts: Parts) -> Source:
    section, world = parts.config.sources.infiniband, parts.world
    # perfquery asks the fabric of this machine: that is not the one of a saved or simulated tree.
    real = world.sysfs == Path("/sys")
    return InfinibandSource(
        world.sysfs,
        world.host,
        world.clock,
        parts.inventory,
        parts.own,
        expected=section.expected,
        ignore=section.ignore,
        perfquery=section.perfquery if real else "",
        with_topology=parts.with_topology,
    )


def _kmsg(parts: Parts) -> Source:
    world = parts.world
    return KernelLogSource(
        world.host, world.clock, world.boot_id, parts.inventory, parts.state, parts.own, path=world.kernel_log, saved=parts.saved
    )


# In the order they are read: GPUs first, since the kernel log names them by address.
SOURCES: dict[str, Callable[[Parts], Source]] = {"infiniband": _infiniband, "kmsg": _kmsg}
