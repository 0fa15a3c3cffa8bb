"""Workers that read the gateway's messages: as ``InProcess``, with the decoding elsewhere.

Messages are handed over as they come, by a hash of the host, so that workers decode while the
judge judges; their answers are taken in the order of the stream. What is judged is what it would be
in one process: a worker only turns bytes into numbers, and writes these to the rows it is given.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from itertools import count
from zlib import crc32

import numpy as np

from gateway.ingest import wire
from gateway.ingest.arena import Arena, SharedRoom
from gateway.ingest.lane import SKIPPED, STRIKES, Forget, Held, Joining, Known, Lane, Ticket
from gateway.ingest.reading import InProcess
from pipeline.block import AnyBlock, Block, Elsewhere, Layout
from pipeline.bus.batch import BatchError, Opened, Received, damage_is_an_error
from pipeline.catalog import fleet as series
from pipeline.child import Child, python
from pipeline.room import Room
from pipeline.room_writing import Writing, write
from pipeline.selfmetrics import SelfMetrics

MODULE = "gateway.ingest.worker"
# Libraries of linear algebra would start a thread for each core, which a worker never uses.
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
KEPT = ("PATH", "LD_LIBRARY_PATH")  # of the environment, which may hold secrets
# A batch takes half a second at most, and a start a second: less than agents wait for a gateway.
HANG_S = 10.0
POLL_S = 0.2
EMPTY = memoryview(b"")
REASONS = ("ended", "hung", "start")


class Pool:
    """So many ``workers``."""

    def __init__(
        self, workers: int, metrics: SelfMetrics, *, hang_s: float = HANG_S, module: str = MODULE
    ) -> None:
        self._arena, self._metrics = Arena(workers), metrics
        self._numbers = count(1)
        self._offered: deque[Ticket] = deque()
        self._here = InProcess()
        for reason in REASONS:
            metrics.add(series.INGEST_RESTARTS, reason, amount=0)
        self._lanes = [
            Lane(number, self._arena, lambda: self._child(module), hang_s, self)
            for number in range(workers)
        ]
        self._writing = _Shared(self._arena)

    @property
    def writing(self) -> Writing:
        """Into memory that all share."""
        return self._writing

    @property
    def pids(self) -> list[int]:
        """Of the workers; 0 for one that is being started."""
        return [lane.pid for lane in self._lanes]

    def offer(self, token: str, payload: bytes) -> None:
        """Begin to read it."""
        self._offered.append(self._ticket(token, payload))

    def read(self, token: str, payload: bytes) -> Received:
        """The batch of the host that the subject's token names. BatchError where it is none."""
        if self._offered and self._offered[0].payload is payload:
            ticket = self._offered.popleft()
        else:
            ticket = self._ticket(token, payload)
        lane = ticket.lane
        while ticket.answer is None:
            if lane.absent:
                lane.withdraw(ticket)
                lane.step(0)
                if ticket.strikes:
                    raise BatchError(SKIPPED)
                return self._here.read(token, payload)
            lane.step(POLL_S)
        lane.taken(ticket)
        if isinstance(ticket.answer, str):
            raise BatchError(ticket.answer)
        return _received(ticket.answer)

    def tend(self) -> None:
        """Take what workers answered, and start again those that ended."""
        for lane in self._lanes:
            lane.step(0)

    def forget(self, token: str) -> None:
        """A host that is gone."""
        self._here.forget(token)
        self._lane(token).ask(Forget(token))

    def close(self) -> None:
        """End the workers."""
        for lane in self._lanes:
            lane.close()
        self._arena.close()

    def restarted(self, reason: str) -> None:
        """Count it."""
        self._metrics.add(series.INGEST_RESTARTS, reason)

    def spent(self, seconds: float) -> None:
        """Count it."""
        self._metrics.add(series.SPENT, "workers", amount=max(0.0, seconds))

    def _ticket(self, token: str, payload: bytes) -> Ticket:
        ticket = Ticket(next(self._numbers), token, payload, self._lane(token))
        ticket.lane.read(ticket)
        return ticket

    def _lane(self, token: str) -> Lane:
        return self._lanes[crc32(token.encode("utf-8", "surrogateescape")) % len(self._lanes)]

    def _child(self, module: str) -> Child:
        return Child(
            python(module, str(self._arena.fd)),
            env={name: os.environ[name] for name in KEPT if name in os.environ} | ONE_THREAD,
            pass_fds=(self._arena.fd,),
        )


class _Shared:
    """Workers write what they hold, this process the rest, and all where a worker does not."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._open: list[tuple[Lane, Joining, Room, Layout, list[tuple[int, Elsewhere]]]] = []

    def room(self, kind: str, rows: int) -> Room:
        """Memory that workers see."""
        return self._arena.room(kind, rows)

    def write(self, room: Room, layout: Layout, placed: Sequence[tuple[int, AnyBlock]]) -> None:
        """Begin to write; the rest is written when it returns."""
        here: list[tuple[int, Block]] = []
        there: dict[Lane, list[tuple[int, Elsewhere]]] = {}
        for begin, block in placed:
            if not isinstance(block, Elsewhere):
                here.append((begin, block))
            elif isinstance(block.holder, Held) and block.holder.strikes < STRIKES:
                there.setdefault(block.holder.lane, []).append((begin, block))
            else:
                here.append((begin, block.block()))
        for lane, its in there.items():
            joining = Joining(_join(room, layout, its))
            self._open.append((lane, joining, room, layout, its))
            lane.ask(joining)
        if here:
            write(room, layout, here)

    def done(self) -> None:
        """Return when all is written."""
        for lane, joining, room, layout, its in self._open:
            while not (joining.done or joining.failed):
                lane.step(POLL_S)
            if joining.failed:
                write(room, layout, [(begin, block.block()) for begin, block in its])
        self._open.clear()
        self._arena.tidy()


def _join(room: Room, layout: Layout, its: Sequence[tuple[int, Elsewhere]]) -> wire.Join:
    numbers = np.array(
        [
            [block.holder.number for _, block in its],  # type: ignore[attr-defined]
            [block.number for _, block in its],
            [begin for begin, _ in its],
        ],
        np.int64,
    )
    at = room.at if isinstance(room, SharedRoom) else 0
    return wire.Join(layout.schema.kind, at, room.gauges.shape[1], numbers)


def _received(known: Known) -> Received:
    """The batch, whose values its worker has."""
    held = known.held
    unix, mono = known.times.tolist()
    blocks, first = [], 0
    for about, samples in known.stacks:
        numbers = range(first, first + samples)
        blocks.append(
            [Elsewhere(about.layout, unix[n], mono[n], about.devices, held, n) for n in numbers]
        )
        first += samples
    opened = Opened(known.host, known.head, [], [], EMPTY, EMPTY, EMPTY, ())
    with damage_is_an_error():
        return opened.received(blocks)
