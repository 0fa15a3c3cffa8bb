"""Which driver call is running now: written by the child before every call, read by the
parent when nothing comes.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from typing import NamedTuple

# start (CLOCK_MONOTONIC, ns; 0 = no call), GPU index, patience, name
_ENTRY = struct.Struct("<qii64s")
NO_DEVICE = -1
# patience: a reading; or loading the library, finding devices, reading slow facts
QUICK, SLOW = 0, 1


class Running(NamedTuple):
    """A call into the driver: on which GPU (by index, NO_DEVICE where it concerns none), since
    when, and how long it may take.
    """

    function: str
    gpu: int
    since_ns: int
    patience: int


class CallBoard:
    """One call in shared memory.

    The child inherits the descriptor ``fd``; a torn read is possible and lasts one look.
    """

    def __init__(self, fd: int | None = None) -> None:
        self.fd = os.memfd_create("tocsin-nvml") if fd is None else fd
        if fd is None:
            os.ftruncate(self.fd, _ENTRY.size)
        self._memory = mmap.mmap(self.fd, _ENTRY.size)

    def begin(self, function: str, gpu: int, patience: int = QUICK) -> None:
        """Say that a call begins now."""
        _ENTRY.pack_into(self._memory, 0, time.monotonic_ns(), gpu, patience, function.encode())

    def end(self) -> None:
        """Say that no call runs."""
        self._memory[:8] = bytes(8)

    def running(self) -> Running | None:
        """The call that runs now, None where none does."""
        since, gpu, patience, name = _ENTRY.unpack_from(self._memory, 0)
        return (
            Running(name.rstrip(b"\0").decode(errors="replace"), gpu, since, patience)
            if since
            else None
        )

    def close(self) -> None:
        """Let go of the memory."""
        self._memory.close()
        os.close(self.fd)
