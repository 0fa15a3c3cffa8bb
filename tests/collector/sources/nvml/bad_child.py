"""What the tests of worker.py run in place of the driver: a process that does one thing wrong."""

from __future__ import annotations

import contextlib
import os
import signal

from collector.sources.nvml import wire
from collector.sources.nvml.wire import pack_document


def main(arguments: list[str]) -> None:
    """Do what the first argument says."""
    match arguments[0]:
        case "noise":
            os.write(1, os.urandom(4096))
        case "flood":
            with contextlib.suppress(BrokenPipeError):
                while True:
                    os.write(1, pack_document(wire.FOUND, 0, id="GPU-0") * 100)
        case "half":
            os.write(1, pack_document(wire.READY, count=8)[:-3])
        case "list":
            os.write(1, wire.pack(wire.READY, 0, b"[1, 2]"))
        case "silence":
            signal.pause()
