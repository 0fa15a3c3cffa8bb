"""MIG instances of a simulated node: which there are, and what each shows of its GPU.

Slices, memory shares and GPU instance ids: NVIDIA MIG User Guide (seven compute and eight memory
slices; 1g instances are numbered from 7, 2g from 3, 3g and 4g from 1).
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass

from simulator.profile import Profile

_FIRST_ID = {1: 7, 2: 3, 3: 1, 4: 1, 7: 0}
_NAME = re.compile(r"(\d)g\.(\d+)gb")


@dataclass(frozen=True, slots=True)
class Instance:
    """One GPU instance with one compute instance on all of it.

    ``number`` is the GPU instance id, ``share`` of the GPU's SMs.
    """

    gpu: int
    index: int
    number: int
    profile: str
    slices: int
    memory_mib: int
    uuid: str

    @property
    def key(self) -> str:
        """Its device in the table of answers."""
        return f"{self.gpu}.{self.number}"


def instances(profile: Profile, seed: int) -> list[Instance]:
    """All instances of a node.

    ValueError where a profile's name has another form than ``3g.40gb``.
    """
    found = []
    for gpu, names in profile.mig.items():
        used: set[int] = set()
        for index, name in enumerate(names):
            match = _NAME.fullmatch(name)
            if match is None or int(match[1]) not in _FIRST_ID:
                raise ValueError(
                    f"profile {profile.name}: [mig] {gpu}: {name!r} is no MIG "
                    "profile such as 3g.40gb"
                )
            slices = int(match[1])
            number = next(n for n in range(_FIRST_ID[slices], 32) if n not in used)
            used.add(number)
            identity = uuid.uuid5(
                uuid.NAMESPACE_OID, f"tocsin:{profile.name}:{seed}:mig{gpu}.{number}"
            )
            # Of eight memory slices a 1g profile has one, 2g two, 3g and 4g four, 7g all.
            memory = profile.gpu.memory_mib * {1: 1, 2: 2, 3: 4, 4: 4, 7: 8}[slices] // 8
            found.append(Instance(gpu, index, number, name, slices, memory, f"MIG-{identity}"))
    return found


def answers(instance: Instance, product: str) -> dict[str, str | int]:
    """What an instance answers that never changes."""
    return {
        "nvmlDeviceGetUUID()": instance.uuid,
        "nvmlDeviceGetName()": f"{product} MIG {instance.profile}",
        "nvmlDeviceGetIndex()": instance.index,
        "nvmlDeviceGetGpuInstanceId()": instance.number,
        "nvmlDeviceGetComputeInstanceId()": 0,
        "nvmlDeviceGetAttributes_v2().gpuInstanceSliceCount": instance.slices,
        "nvmlDeviceGetAttributes_v2().computeInstanceSliceCount": instance.slices,
        "nvmlDeviceGetAttributes_v2().memorySizeMB": instance.memory_mib,
    }
