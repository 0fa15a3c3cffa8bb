"""Where everything stands: nodes of eight GPUs in racks, one InfiniBand port per GPU,
rail-optimised leaf switches.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from pipeline.clock import SECOND_NS
from pipeline.frame import Device
from simulator.fleet.jobs import FleetJob
from simulator.profile import BIOS_VERSION, Profile

GPUS = 8  # of a node, as many as rails
RACK = 8  # nodes of a rack
POD = 64  # nodes of a pod: rail r of all of them meets in one leaf switch of 64 ports
Known = Literal["leaf", "rail", "none"]  # what the topology of the site says of a port


def host_name(node: int) -> str:
    """Name of a node.

    >>> host_name(17)
    'node-0017'
    """
    return f"node-{node:04d}"


def _id(*words: object) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_OID, ":".join(("tocsin-fleet", *map(str, words))))


@dataclass(frozen=True)
class Topology:
    """The fleet as it is at the start.

    GPU ``g`` is number ``g % 8`` of node ``g // 8``; port ``p`` is its neighbour on rail ``p % 8``.

    ``known``: the leaf switch and the other end of each link, the rail alone, or nothing.

    Swapped parts are not in here. ``jobs`` are all jobs of the run as they really ran. Nodes
    are of the profile and of ``others`` by turns, or in blocks.
    """

    profile: Profile
    nodes: int
    seed: int
    begin_ns: int
    jobs: Sequence[FleetJob] = field(default=(), compare=False)
    others: tuple[Profile, ...] = ()
    pod: int = POD
    known: Known = "leaf"
    in_blocks: bool = False
    railed: frozenset[int] = frozenset()  # nodes of whose ports no more than the rail is known

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """Names of all nodes."""
        return tuple(host_name(node) for node in range(self.nodes))

    @cached_property
    def gpus(self) -> tuple[Device, ...]:
        """All GPUs, in the order of the rows of frames."""
        return tuple(
            self.gpu(node, index, index) for node in range(self.nodes) for index in range(GPUS)
        )

    @cached_property
    def ports(self) -> tuple[Device, ...]:
        """The nodes' InfiniBand ports."""
        return tuple(self._port(node, rail) for node in range(self.nodes) for rail in range(GPUS))

    @cached_property
    def switch_ports(self) -> tuple[Device, ...]:
        """The leaf switches' ends of the same links, in the same order."""
        return tuple(
            self._switch_port(node, rail) for node in range(self.nodes) for rail in range(GPUS)
        )

    @cached_property
    def node_devices(self) -> tuple[Device, ...]:
        """All nodes."""
        return tuple(self.node(node, 0) for node in range(self.nodes))

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """All devices, the switches' ends of links included."""
        return (*self.gpus, *self.ports, *self.switch_ports)

    @cached_property
    def switches(self) -> tuple[str, ...]:
        """Names of the leaf switches."""
        return tuple(
            dict.fromkeys(
                self.leaf(node, rail) for node in range(self.nodes) for rail in range(GPUS)
            )
        )

    @cached_property
    def _node_of(self) -> dict[str, int]:
        return {device.id: row // GPUS for row, device in enumerate(self.gpus)} | {
            device.id: row // GPUS for row, device in enumerate(self.ports)
        }

    def profile_of(self, node: int) -> Profile:
        """What a node is made of."""
        models = (self.profile, *self.others)
        return models[node * len(models) // self.nodes if self.in_blocks else node % len(models)]

    def rack(self, node: int) -> str:
        """Name of a node's rack."""
        return f"rack-{node // RACK:02d}"

    def leaf(self, node: int, rail: int) -> str:
        """Name of the leaf switch that a node's rail goes to."""
        return f"leaf-{node // self.pod}-{rail}"

    def rack_of(self, host: str) -> str:
        """Rack of a node by name."""
        return self.rack(int(host.rpartition("-")[2]))

    def node_of(self, device_id: str) -> str:
        """Host of a GPU or port by id; KeyError for an unknown one."""
        return host_name(self._node_of[device_id])

    def hosts_of(self, job: FleetJob) -> tuple[str, ...]:
        """Names of the nodes of a job."""
        return tuple(host_name(node) for node in job.nodes)

    def job_at(self, host: str, time_ns: int) -> FleetJob | None:
        """The job that held a node at an instant."""
        node, at = int(host.rpartition("-")[2]), (time_ns - self.begin_ns) / SECOND_NS
        return next(
            (job for job in self.jobs if node in job.nodes and job.start_s <= at < job.end_s), None
        )

    def gpu(
        self, node: int, slot: int, index: int, *, generation: int = 0, epoch: str = ""
    ) -> Device:
        """The GPU in a slot.

        ``generation`` counts swaps; ``index`` is NVML's number, which a reload may change.
        """
        identity = _id(self.seed, "gpu", node, slot, generation)
        profile = self.profile_of(node)
        driver = profile.host.driver
        facts = {
            "index": str(index),
            "uuid": f"GPU-{identity}",
            "name": str(profile.answers["nvmlDeviceGetName()"]),
            "pci_bus_id": f"{profile.gpu.pci[slot].upper():0>14}.0",
            "serial": f"165{identity.int % 10**10:010d}",
            "vbios": str(profile.answers["nvmlDeviceGetVbiosVersion()"]),
            "driver_version": driver,
            "epoch": epoch or f"{driver}#0",
            **self._place(node),
            **self._fabric(node, slot),
        }
        return Device(host_name(node), "gpu", facts["uuid"], facts)

    def node(self, node: int, boot: int, *, host: str = "") -> Device:
        """A node; ``boot`` counts its reboots."""
        host = host or host_name(node)
        computer = self.profile_of(node).host
        facts = {
            "kernel": computer.kernel,
            "boot_id": str(_id(self.seed, "boot", node, boot)),
            "product": computer.product,
            "nvidia_driver": computer.driver,
            "bios_version": BIOS_VERSION,
            **self._place(node),
        }
        return Device(host, "node", host, facts)

    def _place(self, node: int) -> dict[str, str]:
        return {"cluster": "simulated", "rack": self.rack(node)}

    def _fabric(self, node: int, rail: int) -> dict[str, str]:
        facts = {"rail": str(rail), "leaf": self.leaf(node, rail)}
        names = {"leaf": ("rail", "leaf"), "rail": ("rail",), "none": ()}
        return {name: facts[name] for name in names[self._known_of(node)]}

    def _known_of(self, node: int) -> Known:
        return "rail" if node in self.railed else self.known

    def _guid(self, *words: object) -> str:
        return f"0xa088c20300{_id(self.seed, *words).int % 2**24:06x}"

    def _port(self, node: int, rail: int) -> Device:
        model = self.profile.ports
        facts = {
            "device": model.devices[rail],
            "port": "1",
            "firmware": model.firmware,
            "hca_type": model.hca_type,
            "net_device": model.net[rail],
            "pci_bus_id": model.pci[rail],
            "link_layer": "InfiniBand",
            "expected_by": "learned",
            **self._place(node),
            **self._fabric(node, rail),
        }
        if self._known_of(node) == "leaf":
            facts["peer"] = self._guid("switch", node, rail)
        return Device(host_name(node), "ib_port", self._guid("port", node, rail), facts)

    def _switch_port(self, node: int, rail: int) -> Device:
        leaf = self.leaf(node, rail)
        facts = {
            "device": leaf,
            "port": str(node % self.pod + 1),
            "link_layer": "InfiniBand",
            "expected_by": "learned",
            "cluster": "simulated",
            "leaf": leaf,
            "rail": str(rail),
            "peer": self._guid("port", node, rail),
        }
        return Device(leaf, "ib_port", self._guid("switch", node, rail), facts)
