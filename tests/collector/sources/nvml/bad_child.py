"""What the tests of worker.py run in place of the driver: a process that does one thing wrong."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from collector.sources.nvml import wire
from collector.sources.nvml.callboard import CallBoard
from collector.sources.nvml.wire import pack_document

WORK_S = 0.5  # of a processor, the start of the interpreter included


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
        case "slow" | "stuck":
            os.nice(19)
            os.sched_setaffinity(0, {int(os.environ["TOCSIN_TEST_CPU"])})
            CallBoard(int(arguments[1])).begin("nvmlX", 0)
            if arguments[0] == "stuck":
                signal.pause()
            while time.process_time() < WORK_S:
                pass
            CallBoard(int(arguments[1])).end()
            os.write(1, pack_document(wire.READY, count=0))
            signal.pause()
