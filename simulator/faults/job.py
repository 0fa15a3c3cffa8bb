"""Faults of the job and its host: a collective that never ends, a host that does not feed its GPUs,
a process killed for memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from simulator.kernel_log import oom_kill as oom_kill_line
from simulator.node import Node
from simulator.workload import WATCHDOG_S

Manner = Literal["hang", "cut", "drip", "flood", "phantom", "text_only", "refuse"]
How = Literal["stopped", "late", "mismatched", "in_flight"]


def nccl_stall(
    node: Node,
    gpu: int,
    *,
    lasts: Annotated[
        float, "until it goes on; 0: the watchdog kills the job after 10 minutes"
    ] = 0.0,
    how: Annotated[
        How,
        (
            "its process is stopped, late (has not called the operation), calls another one, "
            "or all are in flight"
        ),
    ] = "stopped",
) -> Iterator[float]:
    """A collective that never ends: all wait for the GPU's rank, and spin at 100 % with no tensor
    work, low flat power, no traffic.
    """
    node.culprit[gpu] = how != "in_flight"
    node.stuck[gpu] = how
    node.workload.stall(f"gpu{gpu} {how}")
    yield lasts or WATCHDOG_S
    node.culprit[gpu] = False
    node.stuck.pop(gpu, None)
    node.workload.resume(f"gpu{gpu} {how}")
    if not lasts:
        node.workload.kill(node.time_s, 0)


def ras_manner(
    node: Node,
    *,
    manner: Annotated[
        Manner,
        (
            "silent after accepting, cut replies, a byte at a time, endless, a made-up "
            "communicator, no JSON, or hanging up"
        ),
    ] = "hang",
    lasts: Annotated[float, "until it answers again"] = 300.0,
) -> Iterator[float]:
    """The job's RAS server misbehaves: what asks it must not suffer."""
    node.ras_manner = manner
    yield lasts
    node.ras_manner = "sound"


def host_stall(
    node: Node, *, lasts: Annotated[float, "until it goes on"] = 300.0
) -> Iterator[float]:
    """The host does not feed its GPUs (data loader, file system): all idle at once
    while the job holds them.
    """
    node.workload.stall("host", "host_stall")
    yield lasts
    node.workload.resume("host")


def oom_kill(node: Node, *, name: Annotated[str, "process name"] = "python3") -> Iterator[float]:
    """The kernel kills a process of the job for memory; the job dies."""
    node.kernel.append(oom_kill_line(node.workload.job.pid, name))
    node.workload.kill(node.time_s, 1)
    yield 0
