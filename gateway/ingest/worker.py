"""An ingest worker: reads batches of some hosts and keeps their values until they are written into
joined frames.

It decides nothing: which batches are new, at which second they are judged and where their rows are
is the gateway's. So one that dies costs the time in which another one reads the same bytes again.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gateway.ingest import wire
from gateway.ingest.arena import arrays_at, mapped
from gateway.ingest.reading import checked
from pipeline.block import Block
from pipeline.bus.batch import BatchError, Decoder, blocks_in
from pipeline.bus.stack import About
from pipeline.child import end_with_parent
from pipeline.room import Room
from pipeline.room_writing import write

PIPE_BYTES = 1 << 20  # pipe(7): the most that an unprivileged process may have
# Linux ends this one first where memory is short: the gateway remembers, a worker does not.
OOM_SCORE = "500"


class _Host:
    """Descriptions of one host's stacks, and the numbers by which the gateway knows them."""

    def __init__(self) -> None:
        self.decoder = Decoder()
        self.numbers: dict[About, int] = {}
        self.forgot = 0  # as of the decoder


class Worker:
    """``handle`` is one command; ``memory`` is the arena."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._hosts: dict[str, _Host] = {}
        self._kept: dict[int, list[Block]] = {}

    def handle(self, what: int, number: int, raw: memoryview) -> tuple[int, bytes]:
        """The answer to a command whose record this is, and its body."""
        released, body = wire.parts(raw)
        for each in released:
            self._kept.pop(each, None)
        if what == wire.JOIN:
            self._join(wire.Join.of(body))
            return wire.DONE, b""
        token, payload = wire.message_in(body)
        if what == wire.FORGET:
            self._hosts.pop(token, None)
            return wire.DONE, b""
        try:
            return wire.BATCH, self._read(number, token, payload)
        except BatchError as error:
            return wire.REFUSED, str(error).encode("utf-8", "replace")

    def _read(self, number: int, token: str, payload: bytes) -> bytes:
        host = self._hosts.get(token) or _Host()
        opened = host.decoder.open(payload)
        stacks = [list(each) for each in blocks_in(opened)]
        checked(opened.host, token)
        self._hosts[token] = host
        blocks = [block for stack in stacks for block in stack]
        self._kept[number] = blocks
        renumbered, host.forgot = host.forgot != host.decoder.forgot, host.decoder.forgot
        if renumbered:
            host.numbers.clear()
        new = []
        for about, (size, packed) in zip(opened.stacks, opened.described, strict=True):
            if about not in host.numbers:
                host.numbers[about] = len(host.numbers)
                new.append((size, packed))
        return wire.Read(
            renumbered,
            bytes(opened.head_json),
            [
                (host.numbers[about], len(stack))
                for about, stack in zip(opened.stacks, stacks, strict=True)
            ],
            np.array([[b.time_ns for b in blocks], [b.mono_ns for b in blocks]], np.int64),
            new,
        ).body()

    def _join(self, join: wire.Join) -> None:
        room = Room(*arrays_at(self._memory, join.at, join.kind, join.rows))
        batches, numbers, begins = join.blocks.tolist()
        blocks = [self._kept[b][n] for b, n in zip(batches, numbers, strict=True)]
        write(room, blocks[0].layout, [*zip(begins, blocks, strict=True)])


def main(arguments: Sequence[str]) -> None:
    """Until standard input ends; the argument is the arena's descriptor."""
    end_with_parent()
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE, encoding="ascii")
    with contextlib.suppress(OSError):
        fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    memory = mapped(int(arguments[0]))
    worker, whole = Worker(memory), memoryview(memory)
    _answer(wire.READY, 0, b"")
    waiting = b""
    while more := os.read(0, 1 << 16):
        waiting += more
        end = len(waiting) - len(waiting) % wire.COMMAND.size
        for what, number, at, length in wire.COMMAND.iter_unpack(waiting[:end]):
            try:
                answer = worker.handle(what, number, whole[at : at + length])
            except BaseException as error:  # said before it dies of it; the gateway starts another
                _answer(wire.FAILED, number, f"{type(error).__name__}: {error}".encode())
                raise
            _answer(answer[0], number, answer[1])
        waiting = waiting[end:]


def _answer(what: int, number: int, body: bytes) -> None:
    left = memoryview(wire.ANSWER.pack(what, time.process_time_ns(), number, len(body)) + body)
    while left:
        left = left[os.write(1, left) :]
