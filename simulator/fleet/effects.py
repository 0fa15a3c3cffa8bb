"""What faults do to a world: errors, kernel lines, GPUs that go and come back,
links that go down and up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.catalog.ib_port import ACTIVE
from pipeline.frame import Device
from pipeline.gpu_state import GpuState
from simulator.fleet import memory
from simulator.fleet.demand import SPINS
from simulator.fleet.events import INFINIBAND, NVML
from simulator.fleet.topology import GPUS
from simulator.fleet.world import OK, FleetState, Process
from simulator.kernel_log import KernelLine, Xid, mlx5_link

DOWN, POLLING, LINK_UP = 1, 2, 5  # PortState and PortPhysicalState of the IBTA specification
Floats = NDArray[np.float64]

NVML_LAG_S = 0.15  # NVML's event set is read so much after the kernel printed the line
# PortXmitWait of a port that waits most of the time, as switches of 100 Gb/s
# and more are seen to count
WAIT_TICKS_PER_S = 4e5
# of transmit-wait on a wire whose other end holds it back most of the time
CONGESTED_TICKS_PER_S = 0.3 * WAIT_TICKS_PER_S
VOLATILE = (
    "energy_millijoules",
    "throttled_power_cap_nanoseconds",
    "throttled_sw_thermal_nanoseconds",
    "throttled_hw_thermal_nanoseconds",
    "throttled_hw_power_brake_nanoseconds",
    "pcie_replays",
    "pcie_transmit_bytes",
    "pcie_receive_bytes",
    "nvlink_replay_errors",
    "nvlink_recovery_errors",
    "nvlink_crc_flit_errors",
)


def kernel(
    world: FleetState,
    node: int,
    device: Device,
    line: KernelLine,
    *,
    after_s: float = 0.0,
    count: int = 1,
) -> None:
    """A line in a node's kernel log."""
    if world.kmsg[node]:
        stream = world.node_columns["host"].devices[node].attributes["boot_id"]
        world.happenings.kernel(device, line, stream, world.when(node, after_s), count)


def xid(
    world: FleetState,
    gpu: int,
    code: int,
    *,
    after_s: float = 0.0,
    count: int = 1,
    nvml: bool = True,
    **details: Any,
) -> None:
    """The driver reports an XID: a kernel line, and as long as the GPU answers an event of NVML.

    Details as in kernel_log.Xid.
    """
    device, job = world.gpu_columns.devices[gpu], world.job_of(gpu)
    pid = details.pop("pid", job.work.pid + gpu % GPUS if job else 0)
    line = replace(
        Xid(gpu % GPUS, world.profiles[gpu // GPUS].gpu.pci[gpu % GPUS], code, pid=pid), **details
    ).line()
    kernel(world, gpu // GPUS, device, line, after_s=after_s, count=count)
    if nvml:
        world.happenings.nvml_xid(device, code, world.when(gpu // GPUS, after_s + NVML_LAG_S))


def ecc(
    world: FleetState, gpu: int, *, corrected: bool, count: int = 1, place: str = "dram"
) -> None:
    """Memory errors of a GPU."""
    world.cells.error(gpu, corrected=corrected, place=place, count=count)
    memory.show(world.cells, gpu, world.gpu_columns)


def remap(world: FleetState, gpu: int, *, corrected: bool = False, bank: int | None = None) -> bool:
    """A row is marked for remapping; False when that failed. Its XID (63 or 64) is the caller's."""
    done = world.cells.remap(gpu, corrected=corrected, bank=bank)
    memory.show(world.cells, gpu, world.gpu_columns)
    return done


def recover(world: FleetState, gpu: int, action: int, *, after_s: float = 0.0) -> None:
    """The driver recommends a recovery action from now on and says so by XID 154; 0
    takes it back without a word.
    """
    world.gpu_columns.set_gauge("recovery_action", float(action), gpu)
    if action:
        xid(world, gpu, 154, after_s=after_s, action=action)


def is_read(world: FleetState, *, host: str) -> Process:
    """The next readings of a node arrive."""
    world.is_read[world.topology.hosts.index(host)] = True
    yield from ()


def reset(world: FleetState, gpu: int) -> None:
    """A GPU reset or driver load: volatile counters begin again, pending remaps take
    effect, the epoch changes.
    """
    world.cells.reset(gpu)
    memory.show(world.cells, gpu, world.gpu_columns)
    world.gpu_columns.set_gauge("recovery_action", 0.0, gpu)
    for name in VOLATILE:
        world.gpu_columns.clear(name, gpu)
    device = world.gpu_columns.devices[gpu]
    driver, _, life = device.attributes["epoch"].rpartition("#")
    describe(world, gpu, epoch=f"{driver}#{int(life) + 1}")


def describe(world: FleetState, gpu: int, **facts: str) -> None:
    """Change slow facts of a GPU."""
    device = world.gpu_columns.devices[gpu]
    world.gpu_columns.replace(
        gpu, Device(device.host, device.kind, device.id, {**device.attributes, **facts})
    )


def gpu_state(world: FleetState, gpu: int, state: int) -> None:
    """A GPU no longer answers, for the reason that its state names, or answers again."""
    before, node = int(world.gpu_state[gpu]), gpu // GPUS
    world.gpu_state[gpu] = state
    world.gpus.dead[gpu] = world.gpus.processless[gpu] = state != OK
    device = world.gpu_columns.devices[gpu]
    if (before == OK) != (state == OK):
        kind, reason = (
            ("device_gone", GpuState(state).label)
            if state != OK
            else ("device_appeared", f"was {GpuState(before).label}")
        )
        world.happenings.tell(NVML, device, kind, world.when(node), {"reason": reason})
    visible = float((world.gpu_state[node * GPUS : (node + 1) * GPUS] == OK).sum())
    world.node_columns[NVML].set_gauge("gpus_visible", visible, node)


def link(world: FleetState, port: int, *, up: bool) -> None:
    """A link goes down or comes up: both ends, where both are seen, and the node's kernel line."""
    ends = [end for end in (port, world.ports.other(port)) if end is not None]
    for end in ends:
        if bool(world.ports.up[end]) == up:
            continue
        world.ports.up[end] = up
        show_port(world, end)
        if not up:
            count(world, end, "link_downed")
        else:
            count(world, end, "link_error_recoveries")
        if end < world.ports.ends:
            model, rail = world.topology.profile.ports, end % GPUS
            kernel(
                world,
                end // GPUS,
                world.port_columns.devices[end],
                mlx5_link(model.pci[rail], model.net[rail], up=up),
            )


def show_port(world: FleetState, port: int, *, width: float = 4.0, rate: float = 1.0) -> None:
    """State, width and rate of a port as they stand; ``rate`` is the share of the full one."""
    columns, up = world.port_columns, bool(world.ports.up[port])
    columns.set_gauge("state", float(ACTIVE if up else DOWN), port)
    columns.set_gauge("physical_state", float(LINK_UP if up else POLLING), port)
    full = world.topology.profile.ports.gigabits_per_second * 1e9
    columns.set_gauge("rate_bits_per_second", full * rate if up else np.nan, port)
    columns.set_gauge("width_lanes", width if up else np.nan, port)
    world.ports.speed[port] = rate


def count(world: FleetState, port: int, name: str, more: int = 1) -> None:
    """A counter of a port goes up, its 64-bit twin with it."""
    for counter in (name, f"{name}_extended"):
        if counter in world.port_columns.schema.counter_row:
            world.port_columns.increase(counter, more, port)


def rate(rates: dict[str, dict[int, float]], name: str, row: int, per_second: float) -> None:
    """Let a counter of a GPU or port (``world.gpu_rates``, ``world.ports.rates``) gain so many
    events per second; 0 ends it.
    """
    if per_second:
        rates.setdefault(name, {})[row] = per_second
    else:
        rates.get(name, {}).pop(row, None)


def limit(world: FleetState, gpu: int, watts: float) -> None:
    """The enforced power limit, as a board controller sets it: the
    requested one does not change.
    """
    world.gpus.limit_w[gpu] = watts
    world.gpu_columns.set_gauge("power_limit_enforced_milliwatts", float(int(watts * 1000)), gpu)


def stall(world: FleetState, gpu: int) -> None:
    """The job of a GPU or port waits in a collective for one that will not
    come, until somebody ends it.
    """
    job = world.job_of(gpu)
    if job is not None:
        world.work.mode[list(job.nodes)] = SPINS


def lock_clocks(world: FleetState, gpus: NDArray[np.intp], share: float) -> None:
    """Application clocks, as ``nvidia-smi -ac`` sets them: a share of the highest, shown as
    what applications ask for.
    """
    world.gpus.clock_lock[gpus] = share
    step, most = world.gpus.clock_step, world.gpus.clock_max[gpus]
    world.gpu_columns.set_gauge(
        "sm_application_clock_megahertz", np.rint(most * share / step) * step, gpus
    )


def uncorrectable(
    world: FleetState,
    gpu: int,
    *,
    bank: int | None = None,
    contained: bool = True,
    codes: Sequence[int] = (48, 63, 94),
) -> None:
    """An uncorrectable memory error: counters, a pending remap, and its XIDs a fraction of a second
    apart in the order given.
    """
    ecc(world, gpu, corrected=False)
    remap(world, gpu, bank=bank)
    for place, code in enumerate(codes):
        xid(world, gpu, code, after_s=0.5 + 0.2 * place)
    if not contained:
        recover(world, gpu, 1, after_s=1.5)


def port_present(world: FleetState, port: int, *, present: bool) -> None:
    """An adapter vanishes from the bus or comes back."""
    world.ports.present[port] = present
    node = port // GPUS
    there = float(world.ports.present[node * GPUS : (node + 1) * GPUS].sum())
    world.node_columns[INFINIBAND].set_gauge("ib_ports_visible", there, node)
