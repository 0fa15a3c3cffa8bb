"""Slow facts and display names of devices, from the layout."""

from __future__ import annotations

from gateway.model import Cluster
from pipeline.frame import Attributes, Device
from pipeline.gpu_parts import gpu_of


class Facts:
    """Attributes of devices, as the readings have them; a finding's own where nothing is read."""

    def __init__(self, cluster: Cluster) -> None:
        self._layout = cluster.layout

    def facts(self, device: Device) -> Attributes:
        """Of one device; parts of a GPU have those of the GPU."""
        if gpu := gpu_of(device):
            row = self._layout.gpu_at(device.host, gpu)
            own = {} if row is None else self._layout.gpus[row].attributes
        elif device.kind == "ib_port":
            row = self._layout.port_at(device.host, device.id)
            own = {} if row is None else self._layout.ports[row].attributes
        else:
            node = self._layout.node_at.get(device.host) if device.kind == "node" else None
            own = {} if node is None else {"rack": self._layout.nodes[node].rack}
        return {**own, **device.attributes}
