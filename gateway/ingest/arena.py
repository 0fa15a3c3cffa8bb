"""Memory that the gateway shares with its workers: a file without a name, which is gone with the
last process that has it, however that ended.

It is sparse: only what was written takes memory. First a ring for each worker, then rooms.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections import deque
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pipeline.block import Layout
from pipeline.bus.batch import MAX_BYTES
from pipeline.frame import schema_of
from pipeline.room import Room

SIZE = 64 << 30  # several times what joined frames of 100,000 GPUs take: addresses, not memory
PAGE = mmap.ALLOCATIONGRANULARITY
# A message is at most little longer than a batch before compression; most are 13 kB.
RING = MAX_BYTES + (16 << 20)
MAX_RECORD = MAX_BYTES + (4 << 20)


def mapped(fd: int) -> mmap.mmap:
    """The whole of it, in any of the processes."""
    return mmap.mmap(fd, SIZE)


@dataclass(slots=True)
class SharedRoom(Room):
    """A room at a place of the arena that workers can find."""

    at: int = 0


def arrays_at(
    memory: mmap.mmap, at: int, kind: str, rows: int
) -> tuple[
    np.ndarray[tuple[int, int], np.dtype[np.float64]],
    np.ndarray[tuple[int, int], np.dtype[np.uint64]],
    np.ndarray[tuple[int, int], np.dtype[np.bool_]],
    np.ndarray[tuple[int], np.dtype[np.int64]],
]:
    """A room's arrays in that memory: gauges, counters, samples' times, observed. Each is the owner
    of no other, so that references to it are those of its views (pipeline/room.py).
    """
    gauges, counters = len(schema_of(kind).gauges), len(schema_of(kind).counters)
    counted = at + gauges * rows * 8
    sampled = counted + counters * rows * 8
    seen = sampled + rows * 8
    return (
        np.ndarray((gauges, rows), np.float64, memory, at),
        np.ndarray((counters, rows), np.uint64, memory, counted),
        np.ndarray((counters, rows), np.bool_, memory, seen),
        np.ndarray((rows,), np.int64, memory, sampled),
    )


def _room_bytes(kind: str, rows: int) -> int:
    schema = schema_of(kind)
    size = rows * (8 * len(schema.gauges) + 9 * len(schema.counters) + 8)
    return max(1, -(-size // PAGE)) * PAGE


class Arena:
    """For so many workers. MemoryError where it is full."""

    def __init__(self, workers: int) -> None:
        self.fd = os.memfd_create("tocsin-ingest", os.MFD_CLOEXEC)
        os.ftruncate(self.fd, SIZE)
        self.memory = mapped(self.fd)
        self._first = workers * RING
        self._taken: dict[int, int] = {}  # sizes of rooms, by where they are
        self._unused: deque[int] = deque()  # of them, whose last view is gone

    def room(self, kind: str, rows: int) -> SharedRoom:
        """In which nothing was observed, until its last view is gone."""
        size = _room_bytes(kind, rows)
        at = self._allocate(size)
        own = mmap.mmap(self.fd, size, offset=at)
        weakref.finalize(own, self._unused.append, at)
        room = SharedRoom(*arrays_at(own, 0, kind, rows), set[Layout](), at)
        room.gauges.fill(np.nan)  # the rest of a fresh page is zero
        return room

    def _allocate(self, size: int) -> int:
        self.tidy()
        ends = [(self._first, 0), *sorted(self._taken.items()), (SIZE, 0)]
        for (at, length), (begin, _) in pairwise(ends):
            if begin - (at + length) >= size:
                self._taken[at + length] = size
                return at + length
        raise MemoryError(f"no {size} bytes are left for joined frames")

    def tidy(self) -> None:
        """Give back the memory of rooms that are gone."""
        while self._unused:
            at = self._unused.popleft()
            self.memory.madvise(mmap.MADV_REMOVE, at, self._taken.pop(at))

    def close(self) -> None:
        """Its memory stays until the last room is gone."""
        os.close(self.fd)


class Ring:
    """Records of one worker, freed in the order in which they were placed."""

    def __init__(self, begin: int, size: int = RING) -> None:
        self._begin, self._size = begin, size
        self._records: deque[tuple[int, int]] = deque()  # where, and up to where
        self._next = 0

    def place(self, size: int) -> int | None:
        """Where a record of that size is to be written; None where there is no room now."""
        if not self._records:
            self._next = 0
        oldest = self._records[0][0] if self._records else self._size
        wrapped = bool(self._records) and self._next <= oldest
        if not wrapped and self._next + size > self._size:
            self._next, wrapped = 0, True
        # One byte stays free: a full ring would look like an empty one.
        if wrapped and self._next + size >= oldest:
            return None
        at, self._next = self._next, self._next + size
        self._records.append((at, self._next))
        return self._begin + at

    def free(self) -> None:
        """The oldest record."""
        self._records.popleft()

    def undo(self) -> None:
        """The newest record was not needed."""
        self._next, _ = self._records.pop()

    def clear(self) -> None:
        """All of them."""
        self._records.clear()
