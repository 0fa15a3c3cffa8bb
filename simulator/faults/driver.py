"""Faults of the driver: a GPU that is gone, calls that never return or kill the caller, a
driver that is not loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from simulator.faults.gpu import Lasts, left
from simulator.kernel_log import fallen_off_the_bus
from simulator.node import Node
from simulator.nvml_state import ABORT, HANG, SEGFAULT

# Return codes of nvml.h.
DRIVER_NOT_LOADED, GPU_IS_LOST = 9, 15


def gpu_lost(node: Node, gpu: int, *, lasts: Lasts = 0.0) -> Iterator[float]:
    """The GPU falls off the bus: XID 79 and its line without a code, GPU_IS_LOST on every call,
    then XID 154; the job dies.
    """
    node.kernel.append(fallen_off_the_bus(node.profile.gpu.pci[gpu]))
    node.xid(gpu, 79)
    node.gpus.present[gpu] = False
    node.results[f"{gpu}/*"] = GPU_IS_LOST
    node.workload.stall(f"gpu{gpu} lost")
    yield 2.0
    node.recover(gpu, 2)
    node.workload.kill(node.time_s, 28)
    node.workload.drained.add(f"gpu{gpu} lost")
    yield left(lasts)
    # The node was rebooted: what is volatile starts again.
    node.results.pop(f"{gpu}/*", None)
    node.gpus.present[gpu] = True
    node.recovery_action[gpu] = 0
    node.cells.reset(gpu)
    node.gpus.energy_mj.reset(gpu)
    node.workload.resume(f"gpu{gpu} lost")
    node.workload.drained.discard(f"gpu{gpu} lost")


def driver_hang(
    node: Node,
    gpu: int,
    *,
    call: Annotated[
        str, "question of the table, such as nvmlDeviceGetPowerUsage(); * is any"
    ] = "*",
    lasts: Lasts = 0.0,
) -> Iterator[float]:
    """Calls about the GPU never return."""
    yield from _answer(node, f"{gpu}/{call}", HANG, lasts)


def driver_crash(
    node: Node,
    gpu: int,
    *,
    call: Annotated[
        str, "question of the table, such as nvmlDeviceGetPowerUsage(); * is any"
    ] = "*",
    how: Annotated[Literal["segfault", "abort"], "what the library does"] = "segfault",
    lasts: Lasts = 0.0,
) -> Iterator[float]:
    """Calls about the GPU kill the process that makes them."""
    yield from _answer(node, f"{gpu}/{call}", SEGFAULT if how == "segfault" else ABORT, lasts)


def driver_unload(node: Node, *, lasts: Lasts = 0.0) -> Iterator[float]:
    """The driver is not loaded: initialisation and every call answer DRIVER_NOT_LOADED; volatile
    counters start again after it.
    """
    node.workload.kill(node.time_s, 0)
    node.workload.drained.add("driver")
    for key in ("-/*", "-/nvmlInit()"):
        node.results[key] = DRIVER_NOT_LOADED
    yield left(lasts)
    for key in ("-/*", "-/nvmlInit()"):
        node.results.pop(key, None)
    for gpu in range(node.profile.gpu.count):
        node.cells.reset(gpu)
    for counter in (node.gpus.energy_mj, *node.gpus.slowed_ns.values()):
        counter.reset()
    node.workload.drained.discard("driver")


def passthrough(node: Node, *, lasts: Lasts = 0.0) -> Iterator[float]:
    """All GPUs are given to virtual machines: bound to vfio-pci, NVIDIA's driver is not loaded."""
    node.gpu_driver = "vfio-pci"
    yield from driver_unload(node, lasts=lasts)
    node.gpu_driver = "nvidia"


def _answer(node: Node, key: str, result: int, lasts: float) -> Iterator[float]:
    node.results[key] = result
    yield left(lasts)
    node.results.pop(key, None)
