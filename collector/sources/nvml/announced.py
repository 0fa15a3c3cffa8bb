"""What NVML's event set announces: XIDs, and the further kinds of error that the GPU supports. Runs
in the driver child.

Of all but an XID NVML gives the kind and the GPU (nvml.h, nvmlEventData_t: ``eventData``). Events
miss what happens while no child runs: the kernel log and the counters are the first sources.
"""

from __future__ import annotations

import ctypes
from typing import Any

from collector.sources.nvml.library import Library, NvmlError

XID = 0x8  # nvmlEventTypeXidCriticalError
# nvmlEventTypeSingleBitEccErrorStorm to nvmlEventTypeGpuRecoveryAction (nvml.h of driver 615)
FURTHER = 0x200 | 0x400 | 0x800 | 0x1000 | 0x2000 | 0x4000 | 0x8000
_MAX_EVENTS = 64  # events taken in one sweep
_NO_INSTANCE = 0xFFFFFFFF


class AnnouncedEvents:
    """The events of registered GPUs since the set was made."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._set: Any = None
        self._gpus: dict[Any, int] = {}
        try:
            self._set = library.call("nvmlEventSetCreate")
        except NvmlError:
            self._set = None

    def register(self, gpu: int, handle: Any) -> None:
        """Also take the events of this GPU: XIDs, and the further ones that it supports.

        One that has no events (a vGPU, an old driver) is left out.
        """
        if self._set is None:
            return
        for types in dict.fromkeys((XID | self._supported(gpu, handle) & FURTHER, XID)):
            try:
                self._library.call("nvmlDeviceRegisterEvents", handle, types, self._set, gpu=gpu)
            except NvmlError:
                continue
            self._gpus[_identity(handle)] = gpu
            return

    def take(self) -> list[tuple[int, dict[str, int]]]:
        """What has come, without waiting: GPU index, and the bits of its type; with the code of an
        XID, and its MIG instance where it has one.
        """
        taken: list[tuple[int, dict[str, int]]] = []
        while self._gpus and len(taken) < _MAX_EVENTS:
            try:
                event = self._library.call("nvmlEventSetWait_v2", self._set, 0)
            except NvmlError:  # most often TIMEOUT: there is none
                break
            gpu = self._gpus.get(_identity(event.device))
            if gpu is None or not event.eventType & (XID | FURTHER):
                continue
            place = {
                "gpu_instance": event.gpuInstanceId,
                "compute_instance": event.computeInstanceId,
            }
            said = {"type": int(event.eventType)}
            if event.eventType & XID:
                said["code"] = event.eventData
            taken.append((gpu, said | {name: n for name, n in place.items() if n != _NO_INSTANCE}))
        return taken

    def _supported(self, gpu: int, handle: Any) -> int:
        """The types of event that a GPU has, as bits; 0 where it does not say."""
        try:
            return int(self._library.call("nvmlDeviceGetSupportedEventTypes", handle, gpu=gpu))
        except NvmlError:
            return 0


def _identity(handle: Any) -> Any:
    """Equal for equal handles: pynvml's are pointers, made again for every event."""
    return ctypes.cast(handle, ctypes.c_void_p).value if hasattr(handle, "contents") else handle
