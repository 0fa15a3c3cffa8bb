"""What a site is built of: racks, nodes of eight GPUs and ports, and how their parts differ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evaluation.independent.interface import Device
from evaluation.independent.site.draw import Values, between, spread
from evaluation.independent.site.hardware import MODELS, Model

PER_NODE = 8
BUSES = ("0f", "2d", "44", "5b", "89", "a8", "c0", "d8")


@dataclass(frozen=True)
class Cluster:
    """Devices in the order of nodes, and arrays with a value for each GPU (or port) of them."""

    model: Model
    gpus: tuple[Device, ...]
    ports: tuple[Device, ...]
    nodes: tuple[Device, ...]
    rack_of: NDArray[np.intp]  # of a node
    node_of: NDArray[np.intp]  # of a GPU
    idle_w: Values
    context_w: Values
    die: Values  # clock at equal power
    resistance: Values  # kelvin per watt
    preheat_k: Values  # by the GPUs in front, at full power

    @property
    def devices(self) -> tuple[Device, ...]:
        """All of them."""
        return self.gpus + self.ports + self.nodes

    def of_node(self, node: int) -> slice:
        """The GPUs, or ports, of a node."""
        return slice(node * PER_NODE, (node + 1) * PER_NODE)


def build(source: np.random.Generator, nodes: int) -> Cluster:
    """A cluster of one model, in racks of two to eight nodes."""
    model = MODELS[source.integers(len(MODELS))]
    per_rack = int(source.integers(2, 9))
    hosts = [f"{source.choice(['gn', 'dgx', 'worker'])}{100 + n}" for n in range(nodes)]
    racks = [f"R{n // per_rack + 1:02d}" for n in range(nodes)]
    size = nodes * PER_NODE
    rear = np.tile(np.arange(PER_NODE) >= PER_NODE // 2, nodes)
    kelvin = source.uniform(28, 45)  # above the inlet at the limit
    return Cluster(
        model,
        tuple(
            _gpu(source, model, h, r, n)
            for h, r in zip(hosts, racks, strict=True)
            for n in range(PER_NODE)
        ),
        tuple(
            _port(source, h, r, n)
            for h, r in zip(hosts, racks, strict=True)
            for n in range(PER_NODE)
        ),
        tuple(Device(h, "node", h, {"rack": r}) for h, r in zip(hosts, racks, strict=True)),
        np.arange(nodes) // per_rack,
        np.repeat(np.arange(nodes), PER_NODE),
        source.uniform(*model.idle_w, size),
        source.uniform(*model.context_w, size),
        spread(source, between(source, 0.005, 0.06), size),
        kelvin / model.limit_w * spread(source, between(source, 0.02, 0.15), size),
        np.where(rear, between(source, 0.5, 14), 0.0),
    )


def _gpu(source: np.random.Generator, model: Model, host: str, rack: str, index: int) -> Device:
    words = source.bytes(16).hex()
    uuid = f"GPU-{words[:8]}-{words[8:12]}-{words[12:16]}-{words[16:20]}-{words[20:]}"
    return Device(
        host,
        "gpu",
        uuid,
        {
            "index": str(index),
            "uuid": uuid,
            "name": model.name,
            "pci_bus_id": f"00000000:{BUSES[index].upper()}:00.0",
            "serial": str(source.integers(10**12, 2 * 10**12)),
            "driver_version": "570.133.20",
            "rack": rack,
        },
    )


def _port(source: np.random.Generator, host: str, rack: str, index: int) -> Device:
    guid = f"0x{source.bytes(8).hex()}"
    facts = {"device": f"mlx5_{index}", "port": "1", "link_layer": "InfiniBand", "rack": rack}
    return Device(host, "ib_port", guid, facts | {"rail": str(index), "leaf": f"{rack}-l{index}"})
