"""Checks of the host: clock, memory, limits, shared memory, network file systems."""

from __future__ import annotations

from collections.abc import Iterator

from collector.facts.processes import SHM
from collector.preflight.model import Machine, Outcome

MAX_OFFSET_NS = 1e9
MIN_AVAILABLE = 0.05  # of the memory
MIN_SHM_BYTES = 1 << 30


def clock(machine: Machine) -> Iterator[Outcome]:
    """The wall clock is disciplined and right."""
    if machine.node.get("clock_synchronised") == 0:
        yield Outcome("clock", "ticket", "node", "the clock is not synchronised", "start chronyd")
    if abs(machine.node.get("clock_offset_nanoseconds", 0.0)) > MAX_OFFSET_NS:
        seconds = machine.node["clock_offset_nanoseconds"] / 1e9
        yield Outcome(
            "clock", "ticket", "node", f"the clock is {seconds:.1f} s off", "chronyc makestep"
        )


def memory(machine: Machine) -> Iterator[Outcome]:
    """Memory is free."""
    total = machine.node.get("memory_total_kibibytes")
    available = machine.node.get("memory_available_kibibytes")
    if total and available is not None and available < MIN_AVAILABLE * total:
        why = f"{available / 2**20:.1f} of {total / 2**20:.0f} GiB are available"
        yield Outcome("memory", "page", "node", why, "find what is left over of the last job")


def limits(machine: Machine) -> Iterator[Outcome]:
    """What a job inherits from here: locked memory; and a /dev/shm of useful size."""
    if machine.limits.known and machine.limits.memlock is not None and machine.facts.active:
        why = f"locked memory is limited to {machine.limits.memlock >> 10} KiB"
        yield Outcome("limits", "ticket", "node", why, "LimitMEMLOCK=infinity in slurmd's unit")
    if machine.shm_bytes is not None and machine.shm_bytes < MIN_SHM_BYTES:
        why = f"{SHM} has {machine.shm_bytes >> 20} MiB free"
        yield Outcome("limits", "ticket", "node", why, f"remove files in {SHM}, or make it larger")


def mounts(machine: Machine) -> Iterator[Outcome]:
    """Network file systems answer."""
    for mount in machine.mounts:
        name = f"{mount.point} ({mount.type})"
        if mount.answered is None:
            yield Outcome("mount", "unknown", "node", f"{name} could not be asked")
        elif not mount.answered:
            why = f"{name} does not answer"
            yield Outcome("mount", "page", "node", why, "check the server, then remount")


def sources(machine: Machine) -> Iterator[Outcome]:
    """What could not be read: never a failure of the hardware."""
    for source, error in machine.failed.items():
        yield Outcome("source", "unknown", "node", f"{source} could not be read: {error}")
