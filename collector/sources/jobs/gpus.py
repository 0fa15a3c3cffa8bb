"""GPUs by every name that schedulers have for them: UUID, MIG UUID, index,
number of the device file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from pipeline.frame import Device

# Device ids of NVIDIA's device plugin and GKE's: UUIDs, `::N` of a shared device, `nvidia0`,
# `nvidia0/gi1`, `.../vgpuN` of GKE's time sharing.
_SHARED = re.compile(r"(?P<id>.+?)(?:::(?P<replica>\d{1,6})|/vgpu(?P<vgpu>\d{1,6}))")
_NUMBERED = re.compile(r"(?:nvidia)?(?P<number>\d{1,4})(?:/gi(?P<instance>\d{1,4}))?")
# MIG before driver 470: GPU, GPU instance and compute instance in the name itself.
_OLD_MIG = re.compile(r"MIG-(?P<uuid>GPU-[0-9a-f-]{36})/(?P<instance>\d{1,4})/\d{1,4}")
# Names that the DRA driver of NVIDIA gives its devices: gpu-<minor>,
# gpu-<minor>-mig-<profile>-<start>-<size>.
_CLAIMED = re.compile(r"gpu-(?P<number>\d{1,4})")


class GpuKey(NamedTuple):
    """A GPU, or one MIG instance of it (``instance`` "" is the complete GPU).

    ``replica`` numbers the shares of one that several containers share.
    """

    uuid: str
    instance: str = ""
    replica: str = ""


class Gpus:
    """The GPUs and MIG instances of a node at one moment, by name; ``others`` are further names of
    instances.
    """

    def __init__(
        self,
        gpus: Iterable[Device],
        instances: Iterable[Device] = (),
        others: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.index: dict[str, str] = {}
        self._by_index: dict[str, str] = {}
        self._by_minor: dict[str, str] = {}
        for gpu in gpus:
            index = gpu.attributes.get("index", "")
            self.index[gpu.id] = index
            self._by_index[index] = gpu.id
            if minor := gpu.attributes.get("minor_number", ""):
                self._by_minor[minor] = gpu.id
        self._instances = {
            i.id: GpuKey(i.attributes.get("gpu_uuid", ""), i.attributes.get("gpu_instance", ""))
            for i in instances
        }
        self._instances |= {
            name: self._instances[own] for name, own in others.items() if own in self._instances
        }

    def numbered(self, index: str) -> str:
        """UUID of the GPU with an index, as NVML and DCGM count; "" where there is none."""
        return self._by_index.get(index, "")

    def device_file(self, number: str) -> str:
        """UUID of the GPU of /dev/nvidiaN, as GKE counts; its index where
        the driver does not report it.
        """
        return self._by_minor.get(number, "") if self._by_minor else self._by_index.get(number, "")

    def listed(self, number: str) -> str:
        """UUID of the GPU that has a number in Slurm's own list; "" where the number is
        ambiguous.

        That list is in NVML's order where Slurm found the GPUs itself (gres_gpu.c,
        _sort_gpu_by_links_order), else in that of the device files in gres.conf: both must mean the
        same GPU. Once a GPU is divided, MIG instances have numbers in it too.
        """
        uuid = self.numbered(number)
        return uuid if not self._instances and uuid == self.device_file(number) else ""

    def named(self, device_id: str) -> GpuKey | None:
        """The device of an id as device plugins give them; None where the
        node has no such device.
        """
        shared = _SHARED.fullmatch(device_id)
        name = shared["id"] if shared else device_id
        place = self._named(name)
        return (
            place._replace(replica=shared["replica"] or shared["vgpu"])
            if place and shared
            else place
        )

    def claimed(self, device: str) -> GpuKey | None:
        """The device of a claim, as NVIDIA's DRA driver names it.

        The name does not identify MIG devices: those are None.
        """
        match = _CLAIMED.fullmatch(device)
        uuid = self.device_file(match["number"]) if match else ""
        return GpuKey(uuid) if uuid else None

    def _named(self, name: str) -> GpuKey | None:
        if name in self.index:
            return GpuKey(name)
        if name in self._instances:
            return self._instances[name]
        if match := _OLD_MIG.fullmatch(name):
            return GpuKey(match["uuid"], match["instance"]) if match["uuid"] in self.index else None
        match = _NUMBERED.fullmatch(name)
        uuid = self.device_file(match["number"]) if match else ""
        return GpuKey(uuid, (match["instance"] or "") if match else "") if uuid else None
