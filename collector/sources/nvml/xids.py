"""XIDs from NVML's event set. Runs in the driver child.

Only XIDs are registered: for any other type NVML leaves the event's data empty (nvml.h,
nvmlEventData_t), and what it would announce (ECC counts, recovery action) is read in every sweep
anyway. Events miss what happens while no child runs: the kernel log is the first source.
"""

from __future__ import annotations

import ctypes
from typing import Any

from collector.sources.nvml.library import Library, NvmlError

_XID = 8  # nvmlEventTypeXidCriticalError
_MOST = 64  # events taken in one sweep
_NO_INSTANCE = 0xFFFFFFFF


class XidEvents:
    """The XIDs of registered GPUs since the set was made."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._set: Any = None
        self._gpus: dict[Any, int] = {}
        try:
            self._set = library.call("nvmlEventSetCreate")
        except NvmlError:
            self._set = None

    def register(self, gpu: int, handle: Any) -> None:
        """Also take the XIDs of this GPU.

        One that has no events (a vGPU, an old driver) is left out.
        """
        if self._set is None:
            return
        try:
            self._library.call("nvmlDeviceRegisterEvents", handle, _XID, self._set, gpu=gpu)
        except NvmlError:
            return
        self._gpus[_identity(handle)] = gpu

    def take(self) -> list[tuple[int, dict[str, int]]]:
        """What has come, without waiting: GPU index, and code with its MIG
        instance where it has one.
        """
        taken: list[tuple[int, dict[str, int]]] = []
        while self._gpus and len(taken) < _MOST:
            try:
                event = self._library.call("nvmlEventSetWait_v2", self._set, 0)
            except NvmlError:  # most often TIMEOUT: there is none
                break
            gpu = self._gpus.get(_identity(event.device))
            if gpu is None or not event.eventType & _XID:
                continue
            place = {
                "gpu_instance": event.gpuInstanceId,
                "compute_instance": event.computeInstanceId,
            }
            taken.append(
                (
                    gpu,
                    {"code": event.eventData}
                    | {name: n for name, n in place.items() if n != _NO_INSTANCE},
                )
            )
        return taken


def _identity(handle: Any) -> Any:
    """Equal for equal handles: pynvml's are pointers, made again for every event."""
    return ctypes.cast(handle, ctypes.c_void_p).value if hasattr(handle, "contents") else handle
