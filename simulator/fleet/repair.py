"""What people do to nodes: reboots, driver reloads, swaps. None of it is a fault."""

from __future__ import annotations

from pipeline.clock import SECOND_NS
from pipeline.frame import Device
from simulator.fleet import effects
from simulator.fleet.events import HOST
from simulator.fleet.topology import GPUS
from simulator.fleet.world import UP_FOR_NS, FleetState


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
