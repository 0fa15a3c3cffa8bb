"""What people do to nodes: reboots, driver reloads, swaps. None of it is a fault."""

from __future__ import annotations

from pipeline.clock import SECOND_NS
from pipeline.frame import Device
from simulator.fleet import effects
from simulator.fleet.events import HOST, INFINIBAND, NVML
from simulator.fleet.topology import GPUS
from simulator.fleet.world import OK, UP_FOR_NS, FleetState, Process

BOOT_S = 420.0  # of a node with eight GPUs, from power-off until the agent reads again


def reboot(world: FleetState, node: int) -> None:
    """The node has booted: another boot id, volatile counters from zero, ports' epochs again."""
    world.boots[node] += 1
    boot = world.boots[node]
    for gpu in range(node * GPUS, (node + 1) * GPUS):
        effects.reset(world, gpu)
    for columns in world.node_columns.values():
        columns.replace(node, world.topology.node(node, boot))
    begin_s = (
        (world.topology.begin_ns - UP_FOR_NS) // SECOND_NS + UP_FOR_NS // SECOND_NS + world.now_s
    )
    world.node_columns[HOST].set_gauge("boot_time_seconds", float(int(begin_s)), node)
    for port in range(node * GPUS, (node + 1) * GPUS):
        clear_port(world, port)
        device = world.port_columns.devices[port]
        facts = {**device.attributes, "epoch": f"boot#{boot}"}
        world.port_columns.replace(port, Device(device.host, device.kind, device.id, facts))


def clear_port(world: FleetState, port: int) -> None:
    """Counters of a port begin again: its adapter lost power, or somebody ran ``perfquery -R``."""
    for field in world.port_columns.schema.counters:
        world.port_columns.clear(field.name, port)


def reload_driver(world: FleetState, node: int, order: list[int]) -> None:
    """The driver was loaded again: volatile counters from zero, and NVML may count
    the GPUs in another order.
    """
    for slot, index in enumerate(order):
        gpu = node * GPUS + slot
        effects.reset(world, gpu)
        effects.describe(world, gpu, index=str(index))


def swap(world: FleetState, gpu: int, generation: int) -> None:
    """Another GPU in the same slot: new identity, nothing of the old one's history."""
    node, slot = divmod(gpu, GPUS)
    columns = world.gpu_columns
    columns.replace(gpu, world.topology.gpu(node, slot, slot, generation=generation))
    for counts in (world.cells.volatile, world.cells.aggregate):
        for values in counts.values():
            values[gpu] = 0
    for remapped in world.cells.remapped.values():
        remapped[gpu] = 0
    effects.reset(world, gpu)


def power(world: FleetState, node: int, *, on: bool) -> None:
    """A node is switched off or on: its agent is silent, and the links'
    other ends see them go down.
    """
    for source in (NVML, INFINIBAND, HOST):
        world.silent[source][node] = not on
    for port in range(node * GPUS, (node + 1) * GPUS):
        other = world.ports.other(port)
        if other is None or bool(world.ports.up[other]) == on:
            continue
        world.ports.up[other] = on
        effects.show_port(world, other)
        effects.count(world, other, "link_error_recoveries" if on else "link_downed")


def boot(world: FleetState, *, node: int, off_s: float = BOOT_S) -> Process:
    """The node is off, and comes back with another boot."""
    power(world, node, on=False)
    yield off_s
    reboot(world, node)
    power(world, node, on=True)
    for gpu in range(node * GPUS, (node + 1) * GPUS):
        if world.gpu_state[gpu] != OK:
            effects.gpu_state(world, gpu, OK)
