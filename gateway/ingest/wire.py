"""What the gateway and a worker say to each other: commands and answers over pipes, messages in the
ring.

A command names a record of the ring: the batches that nobody needs any more, then what is asked
for. Each has one answer, in order. Both ends are of one version; nothing leaves the machine.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.catalog import KINDS

COMMAND = struct.Struct("<BQQI")  # what, number of the batch or of the join, where, length
READ, JOIN, FORGET = range(3)
ANSWER = struct.Struct("<BQQI")  # what, CPU time of the worker so far (ns), number, length
READY, BATCH, REFUSED, DONE, FAILED = range(5)
COUNT, TOKEN = struct.Struct("<I"), struct.Struct("<H")
ROOM = struct.Struct("<BQQI")  # kind, where, rows, blocks
PARTS = struct.Struct(
    "<?III"
)  # whether numbers begin again; stacks, new descriptions, head's length
ABOUT = struct.Struct("<II")  # length before compression, length
KINDS_IN_ORDER = tuple(KINDS)


def record(released: Sequence[int], body: bytes) -> bytes:
    """A command's record."""
    return b"".join([COUNT.pack(len(released)), np.array(released, np.uint64).tobytes(), body])


def parts(raw: memoryview) -> tuple[list[int], memoryview]:
    """What ``record`` was given."""
    (count,) = COUNT.unpack_from(raw)
    begin = COUNT.size + 8 * count
    return np.frombuffer(raw[COUNT.size : begin], np.uint64).tolist(), raw[begin:]


def message(token: str, payload: bytes) -> bytes:
    """The body of READ, and with no payload of FORGET."""
    name = token.encode()
    return b"".join([TOKEN.pack(len(name)), name, payload])


def message_in(body: memoryview) -> tuple[str, bytes]:
    """What ``message`` was given."""
    (length,) = TOKEN.unpack_from(body)
    begin = TOKEN.size + length
    return str(body[TOKEN.size : begin], "utf-8"), bytes(body[begin:])


class Join(NamedTuple):
    """Blocks (of batch, by number) to be written to these first rows of a room."""

    kind: str
    at: int
    rows: int
    blocks: NDArray[np.int64]  # (batch, number, first row) of each

    def body(self) -> bytes:
        """Of JOIN."""
        place = KINDS_IN_ORDER.index(self.kind)
        return (
            ROOM.pack(place, self.at, self.rows, self.blocks.shape[1])
            + np.ascontiguousarray(self.blocks).tobytes()
        )

    @classmethod
    def of(cls, body: memoryview) -> Join:
        """What ``body`` gave."""
        kind, at, rows, count = ROOM.unpack_from(body)
        numbers = np.frombuffer(body[ROOM.size :], np.int64).reshape(3, count)
        return cls(KINDS_IN_ORDER[kind], at, rows, numbers)


class Read(NamedTuple):
    """A batch that was read: its head; of each stack the number of its description and how many
    samples; ``times`` (unix, monotonic) of each block. Descriptions that are new since they were
    ``renumbered``, in their order: length before compression, and bytes.
    """

    renumbered: bool
    head_json: bytes
    stacks: list[tuple[int, int]]
    times: NDArray[np.int64]
    described: list[tuple[int, bytes]]

    def body(self) -> bytes:
        """Of BATCH."""
        return b"".join(
            [
                PARTS.pack(
                    self.renumbered, len(self.stacks), len(self.described), len(self.head_json)
                ),
                self.head_json,
                np.array(self.stacks, np.int64).tobytes(),
                *(ABOUT.pack(size, len(raw)) + raw for size, raw in self.described),
                self.times.tobytes(),
            ]
        )

    @classmethod
    def of(cls, body: memoryview) -> Read:
        """What ``body`` gave."""
        renumbered, stacks, new, head = PARTS.unpack_from(body)
        at = PARTS.size + head
        head_json = bytes(body[PARTS.size : at])
        numbers = np.frombuffer(body[at : at + 16 * stacks], np.int64).reshape(stacks, 2)
        at += 16 * stacks
        described = []
        for _ in range(new):
            size, length = ABOUT.unpack_from(body, at)
            at += ABOUT.size + length
            described.append((size, bytes(body[at - length : at])))
        times = np.frombuffer(body[at:], np.int64).reshape(2, -1)
        pairs = [(number, samples) for number, samples in numbers.tolist()]
        return cls(renumbered, head_json, pairs, times, described)
