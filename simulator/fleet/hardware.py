"""The standing values of a fleet's devices: those of one simulated node, as its own rendering as
frames shows them, for every node.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeline.frame import Frame
from simulator.fleet.columns import Columns
from simulator.fleet.events import HOST, INFINIBAND, NVML
from simulator.fleet.readings import GPU_FIELDS, PORT_FIELDS
from simulator.fleet.topology import GPUS, Topology
from simulator.frames import FrameRenderer
from simulator.node import Node
from simulator.profile import Profile

CLOCK_OFFSET_NS, CLOCK_ERROR_US = 1e5, 5000.0  # of nodes that chrony disciplines over a LAN
# Of adapters: they stand until a fault changes them.
PCIE = tuple(
    f"pcie_{what}_{end}" for what in ("width", "generation") for end in ("current", "maximum")
)
TWINS = ("symbol_errors", "link_downed")  # counters whose 64-bit twins the agent asks for


def gpu_columns(topology: Topology, profiles: Sequence[Profile]) -> Columns:
    """GPUs of nodes of these profiles: fixed fields as they are, registers at their start;
    registers nobody drives are not observed.
    """
    columns = Columns("gpu", topology.gpus)
    for profile in dict.fromkeys(p.name for p in profiles):
        model = next(p for p in profiles if p.name == profile)
        renderer = FrameRenderer(Node(model, topology.seed), "template")
        frame = renderer.nvml(0, 0, links=False).frames[0]
        where = np.repeat([p.name == profile for p in profiles], GPUS)
        _fill(columns, frame, renderer.moving("gpu") - GPU_FIELDS, where)
    return columns


def port_columns(
    topology: Topology, profile: Profile, *, switches: bool, extended: bool
) -> Columns:
    """Ports of the nodes and, where they are seen, of the switches, which have no net device and
    none of the adapter's own counters.
    """
    ends = len(topology.ports)
    columns = Columns("ib_port", topology.ports + (topology.switch_ports if switches else ()))
    renderer = FrameRenderer(Node(profile, topology.seed), "template")
    frame = renderer.infiniband(0, 0).frames[0]
    _fill(
        columns,
        frame,
        renderer.moving("ib_port") - PORT_FIELDS,
        np.ones(len(columns.devices), bool),
    )
    for name in PCIE:
        columns.set_gauge(name, float(frame.gauge(name)[0]), slice(ends))
        columns.set_gauge(name, np.nan, slice(ends, None))
    for name in TWINS if extended else ():
        columns.set_counter(f"{name}_extended", 0)
    for counter in columns.schema.counters:
        if "sysfs counters/" not in counter.read and not counter.name.endswith("_extended"):
            columns.unsupported(counter.name, slice(ends, None))
    return columns


def node_columns(topology: Topology, rng: np.random.Generator, boot_s: int) -> dict[str, Columns]:
    """The nodes as each source that says something of them sees them."""
    columns = {
        source: Columns("node", topology.node_devices) for source in (NVML, INFINIBAND, HOST)
    }
    for source, what in ((NVML, "gpus"), (INFINIBAND, "ib_ports")):
        for word in ("expected", "visible"):
            columns[source].set_gauge(f"{what}_{word}", float(GPUS))
    columns[HOST].set_gauge("boot_time_seconds", float(boot_s))
    columns[HOST].set_gauge("clock_synchronised", 1.0)
    columns[HOST].set_gauge(
        "clock_offset_nanoseconds", np.rint(rng.normal(0, CLOCK_OFFSET_NS, topology.nodes))
    )
    columns[HOST].set_gauge("clock_maximum_error_microseconds", CLOCK_ERROR_US)
    return columns


def _fill(
    columns: Columns,
    frame: Frame,
    unknown: frozenset[str],
    where: np.ndarray[tuple[int], np.dtype[np.bool_]],
) -> None:
    """Give the devices at ``where`` the values of a frame of eight, again and again."""
    times = int(where.sum()) // GPUS
    columns.gauges[:, where] = np.tile(frame.gauges, times)
    columns.counters[:, where] = np.tile(frame.counters, times)
    columns.observed[:, where] = np.tile(frame.observed, times)
    for name in unknown:
        columns.unsupported(name, where)
