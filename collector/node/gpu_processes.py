"""What the NVML source knows of the node's GPUs that others need: which are there, which MIG
instances they have, which processes hold them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from types import MappingProxyType
from typing import NamedTuple

from pipeline.frame import Device

NO_INSTANCE = -1


class Holder(NamedTuple):
    """A process that holds a GPU, or one of its instances (NO_INSTANCE: the whole).

    ``pid`` is the host's.
    """

    pid: int
    instance: int


class Held(NamedTuple):
    """One look.

    ``holders`` is by UUID of the GPU; a GPU whose processes were never listed is not in it.
    """

    gpus: tuple[Device, ...]
    instances: tuple[Device, ...]
    holders: Mapping[str, tuple[Holder, ...]]


class GpuProcesses:
    """Written by one source, looked at by others, each in a thread of its own."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._held = Held((), (), MappingProxyType({}))

    def note(self, gpus: Sequence[Device], instances: Sequence[Device]) -> None:
        """GPUs and MIG instances that are known now."""
        with self._lock:
            self._held = Held(tuple(gpus), tuple(instances), self._held.holders)

    def hold(self, uuid: str, holders: Iterable[Holder]) -> None:
        """The processes that hold a GPU now, instances and all."""
        with self._lock:
            self._held = self._held._replace(
                holders=MappingProxyType({**self._held.holders, uuid: tuple(holders)})
            )

    def look(self) -> Held:
        """What is known now."""
        with self._lock:
            return self._held
