"""The driver child: the only process that loads the driver library.

It may hang or crash; its parent goes on.

It receives once what to ask (a JSON document in shared memory), finds the devices, and then does
what single bytes on its standard input say: ``s`` a sweep, ``l`` a sweep with NVLinks, ``f`` look
at slow facts and the MIG layout again. It ends when that closes.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import mmap
import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from types import TracebackType

from collector.sources.nvml import wire
from collector.sources.nvml.announced import AnnouncedEvents
from collector.sources.nvml.callboard import SLOW, CallBoard
from collector.sources.nvml.devices import Gpu, Plan, identify
from collector.sources.nvml.library import Library, NvmlError, open_library
from collector.sources.nvml.wire import pack_document


def main(arguments: Sequence[str]) -> None:
    """Entry point: descriptors of the call board and of the plan."""
    sys.excepthook = _confess
    _end_with_parent()
    board = CallBoard(int(arguments[0]))
    with mmap.mmap(int(arguments[1]), 0, access=mmap.ACCESS_READ) as memory:
        document = json.loads(memory[:])
    try:
        library = Library(open_library(document["library"]), board)
        library.initialise()
    except NvmlError as error:
        _write(pack_document(wire.FAILED, code=error.code))
        return
    except (ImportError, OSError, ValueError) as error:
        _write(pack_document(wire.FAILED, code=0, text=str(error)))
        return
    driver = Driver(
        library,
        Plan(document["questions"], document["facts"], document["hold"], document["processes"]),
        skip=document["skip"],
        events=document["events"],
    )
    try:
        driver.start()
    except NvmlError as error:  # of no GPU: how many there are is not known
        _write(pack_document(wire.FAILED, code=error.code))
        return
    gc.collect()
    gc.freeze()
    while command := os.read(0, 1):
        driver.obey(command)


class Driver:
    """All GPUs but those that are left out, and what was said of them so far."""

    def __init__(self, library: Library, plan: Plan, *, skip: Sequence[int], events: bool) -> None:
        self._library = library
        self._plan = plan
        self._skip = frozenset(skip)
        self._events = AnnouncedEvents(library) if events else None
        self._count = 0
        self._gpus: list[Gpu] = []
        self._layouts: dict[int, tuple[int, list[str]]] = {}

    def start(self) -> None:
        """Find the GPUs and say what they are. NvmlError where the driver does not count them."""
        self._count = self._counted()
        for index in range(self._count):
            if index in self._skip:
                continue
            try:
                handle, uuid = identify(self._library, index)
                _write(pack_document(wire.FOUND, index, id=uuid))
                gpu = Gpu(self._library, self._plan, index, handle, uuid)
                said = b"".join(gpu.describe())
            except NvmlError as error:
                _write(pack_document(wire.TROUBLE, index, code=error.code))
                continue
            self._gpus.append(gpu)
            if self._events:
                self._events.register(index, gpu.handle)
            _write(said)
        _write(pack_document(wire.READY, count=self._count))

    def obey(self, command: bytes) -> None:
        """Do what one byte says; anything else is passed over."""
        if command in {b"s", b"l"}:
            self._sweep(links=command == b"l")
        elif command == b"f":
            for gpu in self._gpus:
                _write(b"".join(gpu.look_again()))
            with contextlib.suppress(NvmlError):  # as many as before, until it answers
                self._count = self._counted()
            _write(pack_document(wire.READY, count=self._count))

    def _sweep(self, *, links: bool) -> None:
        began = time.monotonic()
        for index, event in self._events.take() if self._events else ():
            _write(pack_document(wire.EVENT, index, **event))
        for gpu in self._gpus:
            try:
                _write(self._read(gpu, links=links))
            except NvmlError as error:
                _write(pack_document(wire.TROUBLE, gpu.index, code=error.code))
        _write(pack_document(wire.DONE, microseconds=round((time.monotonic() - began) * 1e6)))

    def _read(self, gpu: Gpu, *, links: bool) -> bytes:
        """Values of a GPU and of all that belongs to it, whole or not at all."""
        parts: list[bytes] = []
        for target, gpm in gpu.targets(links=links):
            entries = target.read(time.monotonic())
            activity = gpm.read() if gpm else b""
            columns, activities = target.columns, gpm.columns if gpm and activity else []
            if self._layouts.get(target.number) != (target.layout, activities):
                self._layouts[target.number] = (target.layout, activities)
                parts.append(
                    pack_document(
                        wire.LAYOUT,
                        gpu.index,
                        target=target.number,
                        columns=columns,
                        gpm=activities,
                    )
                )
            head = wire.VALUES_HEAD.pack(
                target.number, len(columns), len(activities), time.time_ns()
            )
            parts.append(wire.pack(wire.VALUES, gpu.index, head + entries + activity))
        if (processes := gpu.processes()) is not None:
            parts.append(pack_document(wire.PROCESSES, gpu.index, processes=processes))
        if (memory := gpu.memory()) is not None:
            parts.append(pack_document(wire.MEMORY, gpu.index, memory=memory))
        return b"".join(parts)

    def _counted(self) -> int:
        return int(self._library.call("nvmlDeviceGetCount", patience=SLOW))


def _end_with_parent() -> None:
    """Who hangs in the driver never sees its input close, and would hold the GPUs open forever:
    the kernel ends it with its parent.
    """
    pr_set_pdeathsig = 1  # <linux/prctl.h>
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def _confess(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A fault of ours is said to the parent: standard error is dropped."""
    place = traceback.extract_tb(trace)[-1] if trace else None
    at = f" at {place.filename}:{place.lineno}" if place else ""
    _write(pack_document(wire.FAILED, code=0, text=f"driver child: {kind.__name__}: {error}{at}"))


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]
