"""An ingest worker that some messages kill, in the ways in which bytes can."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Sequence

from gateway.ingest import worker

KILLS, SPINS, FILLS = b"kills", b"spins", b"fills"
ROOM = 1 << 30  # beside the addresses of the arena, which take none


def main(arguments: Sequence[str]) -> None:
    """As the worker's."""
    reads = worker.Worker._read

    def fragile(its: worker.Worker, number: int, token: str, payload: bytes) -> bytes:
        if payload == KILLS:
            os.kill(os.getpid(), signal.SIGKILL)
        while payload == SPINS:
            pass
        if payload == FILLS:
            resource.setrlimit(resource.RLIMIT_DATA, (ROOM, ROOM))
            bytearray(4 * ROOM)
        return reads(its, number, token, payload)

    worker.Worker._read = fragile  # type: ignore[method-assign, assignment]
    worker.main(arguments)
