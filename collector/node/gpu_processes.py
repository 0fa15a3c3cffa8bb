"""GPUs of the node as the NVML source knows them, for other sources: GPUs, their MIG instances, and
the processes that use them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from types import MappingProxyType
from typing import NamedTuple

from pipeline.frame import Device

NO_INSTANCE = -1


class Holder(NamedTuple):
    """A process that uses a GPU, or one of its instances (NO_INSTANCE: the complete GPU).

    ``pid`` is the host's.
    """

    pid: int
    instance: int


class ProcessesByGpu(NamedTuple):
    """GPUs, MIG instances and processes at one time.

    ``holders`` is by UUID of the GPU; a GPU whose processes were never listed is not in it.
    ``others`` has the GPU instance of each MIG UUID that is not its own: a GPU instance has one of
    each of its compute instances.
    """

    gpus: tuple[Device, ...]
    instances: tuple[Device, ...]
    holders: Mapping[str, tuple[Holder, ...]]
    others: Mapping[str, str] = MappingProxyType({})


class GpuProcesses:
    """Written by one source, read by others, each in a thread of its own."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._latest = ProcessesByGpu((), (), MappingProxyType({}))

    def note(
        self,
        gpus: Sequence[Device],
        instances: Sequence[Device],
        others: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """GPUs and MIG instances that are known now, and other names of these."""
        with self._lock:
            self._latest = ProcessesByGpu(
                tuple(gpus), tuple(instances), self._latest.holders, dict(others)
            )

    def hold(self, uuid: str, holders: Iterable[Holder]) -> None:
        """The processes that use a GPU or its instances now."""
        with self._lock:
            self._latest = self._latest._replace(
                holders=MappingProxyType({**self._latest.holders, uuid: tuple(holders)})
            )

    def look(self) -> ProcessesByGpu:
        """What is known now."""
        with self._lock:
            return self._latest
