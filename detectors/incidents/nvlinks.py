"""Which GPUs an NVLink ends at: its own, and the one at the other end where the driver names it.

An NVLink is a device of its GPU (``<GPU UUID>/<link>``). Where it ends at another GPU, not at an
NVSwitch, NVML gives the PCI address of that one.
"""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.frame import Device

ENDS_AT_GPU = "0"  # nvmlIntNvLinkDeviceType_t: NVML_NVLINK_DEVICE_TYPE_GPU


class NvLinkEnds:
    """The GPUs at the ends of NVLinks, by the PCI addresses of the GPUs that are read.

    The addresses are only looked at when a link ends at a GPU: most end at NVSwitches, and a
    cluster has a million of them.

    >>> ends, pci = NvLinkEnds(), "00000000:0F:00.0"
    >>> ends.learn("nvml", [Device("n1", "gpu", "GPU-b", {"pci_bus_id": pci})])
    >>> facts = {"gpu_uuid": "GPU-a", "remote_type": "0", "remote_pci_bus_id": pci}
    >>> ends.of(Device("n1", "nvlink", "GPU-a/4", facts))
    ('GPU-a', 'GPU-b')
    """

    def __init__(self) -> None:
        self._gpus: dict[str, tuple[Device, ...]] = {}
        self._by_address: dict[tuple[str, str], str] | None = None

    def learn(self, source: str, gpus: Iterable[Device]) -> None:
        """These are all GPUs that a source reads."""
        self._gpus[source], self._by_address = tuple(gpus), None

    def of(self, link: Device) -> tuple[str, ...]:
        """UUIDs of its GPU and of the one at the other end, where that is known."""
        facts = link.attributes
        own = facts.get("gpu_uuid") or link.id.rpartition("/")[0]
        peer = ""
        if facts.get("remote_type") == ENDS_AT_GPU:
            peer = self._at(link.host, facts.get("remote_pci_bus_id", ""))
        return tuple(dict.fromkeys(uuid for uuid in (own, peer) if uuid))

    def _at(self, host: str, address: str) -> str:
        if self._by_address is None:
            self._by_address = {
                (gpu.host, pci.lower()): gpu.id
                for gpus in self._gpus.values()
                for gpu in gpus
                if (pci := gpu.attributes.get("pci_bus_id"))
            }
        return self._by_address.get((host, address.lower()), "")
