"""Decodes Prometheus' XOR chunks, many at once: the n-th sample of all of them in one step.

tsdb/chunkenc/xor.go of Prometheus 3.14 (Gorilla, Pelkonen et al. 2015, 4.1): uint16 count; time
varint and value; time's increase uvarint and value; then the change of the increase, and values as
what differs from the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = tuple[NDArray[np.int64], NDArray[np.float64]]
    Words = NDArray[np.uint64]

HEAD_BYTES = 2  # the count
# By a prefix's first four bits: its length, and the bits of the number behind it.
_PREFIX = np.array([1] * 8 + [2] * 4 + [3] * 2 + [4, 4], np.int64)
_SIZE = np.array([0] * 8 + [14] * 4 + [17] * 2 + [20, 64], np.int64)
_VARINT_BYTES = 10


class TornChunkError(ValueError):
    """Bytes that are no chunk, or not all of one."""


def decoded(chunks: Sequence[bytes]) -> list[Arrays]:
    """Times in ms, int64 (sample,), and values, float64 (sample,), of each chunk.

    TornChunkError; what is allocated is bounded by the bytes, of which a sample has two bits at
    least.
    """
    counts = np.array([int.from_bytes(one[:HEAD_BYTES]) for one in chunks], np.int64)
    bits = np.array([8 * len(one) for one in chunks], np.int64)
    if ((2 * counts > bits) | (bits < 8 * HEAD_BYTES)).any():
        raise TornChunkError("a chunk says that it has more samples than it can have")
    order = np.argsort(-counts, kind="stable")  # those that go on longest first
    made = _Decoder([chunks[i] for i in order.tolist()], counts[order]).run()
    ends = np.concatenate([[0], np.cumsum(counts[order])])
    of = {int(i): slice(a, b) for i, (a, b) in zip(order, pairwise(ends.tolist()), strict=True)}
    return [(made[0][of[i]], made[1][of[i]]) for i in range(len(chunks))]


class _Decoder:
    """Chunks side by side, those with most samples first; ``_at`` is the bit that each is at."""

    def __init__(self, chunks: Sequence[bytes], counts: NDArray[np.int64]) -> None:
        self._counts = counts
        sizes = np.array([len(one) for one in chunks], np.int64)
        self._ends = 8 * np.cumsum(sizes)
        self._at = self._ends - 8 * sizes + 8 * HEAD_BYTES
        # a torn chunk is read beyond its end before that is seen
        buffer = b"".join(chunks) + bytes(32)
        self._bytes = np.frombuffer(buffer, np.uint8)
        self._words = np.ndarray((len(buffer) - 8,), ">u8", buffer, strides=(1,))
        self._last = len(buffer) - 24

    def run(self) -> Arrays:
        """All samples, chunk by chunk."""
        n = len(self._counts)
        starts = np.cumsum(self._counts) - self._counts
        times = np.zeros(int(self._counts.sum()), np.int64)
        values = np.zeros(len(times), np.uint64)
        time, step = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self._value = np.zeros(n, np.uint64)
        self._lead, self._width = np.zeros(n, np.int64), np.zeros(n, np.int64)
        for number in range(int(self._counts[0]) if n else 0):
            m = int(np.searchsorted(-self._counts, -number))  # have this sample
            if number == 0:
                coded = self._varint(m)
                time[:m] = (coded >> np.uint64(1)).astype(np.int64) ^ -(
                    coded & np.uint64(1)
                ).astype(np.int64)
                self._value[:m] = self._peek(self._at[:m])
                self._at[:m] += 64
            else:
                step[:m] = (
                    self._varint(m).astype(np.int64)
                    if number == 1
                    else (step[:m] + self._change(m))
                )
                time[:m] += step[:m]
                self._next_value(m)
            places = starts[:m] + number
            times[places], values[places] = time[:m], self._value[:m]
        if (self._at > self._ends).any():
            raise TornChunkError("a chunk ends before its last sample")
        return times, values.view(np.float64)

    def _peek(self, at: NDArray[np.int64]) -> Words:
        """The next 64 bits."""
        byte, shift = np.minimum(at >> 3, self._last), (at & 7).astype(np.uint64)
        more = self._bytes[byte + 8].astype(np.uint64) >> (np.uint64(8) - shift)
        words: Words = self._words[byte].astype(np.uint64)
        made: Words = (words << shift) | more
        return made

    def _varint(self, m: int) -> Words:
        """A number in groups of 7 bits, the low ones first (encoding/binary of Go)."""
        made, going = np.zeros(m, np.uint64), np.ones(m, np.bool_)
        for group in range(_VARINT_BYTES):
            byte = (self._peek(self._at[:m]) >> np.uint64(56)).astype(np.uint64)
            made |= np.where(going, (byte & np.uint64(0x7F)) << np.uint64(7 * group), 0)
            self._at[:m] += 8 * going
            going &= byte >= 0x80
            if not going.any():
                return made
        raise TornChunkError("a chunk with a number that does not end")

    def _change(self, m: int) -> NDArray[np.int64]:
        """The change of a time's increase."""
        bits = self._peek(self._at[:m])
        kind = (bits >> np.uint64(60)).astype(np.int64)
        prefix, size = _PREFIX[kind], _SIZE[kind]
        self._at[:m] += prefix + size
        change = np.zeros(m, np.int64)
        (own,) = np.nonzero(size)
        if len(own):
            size = size[own]
            raw = self._peek(self._at[own] - size) >> (64 - size).astype(np.uint64)
            signed = raw.astype(np.int64)
            half = np.int64(1) << np.minimum(size - 1, 62)
            change[own] = np.where((size < 64) & (signed > half), signed - 2 * half, signed)
        return change

    def _next_value(self, m: int) -> None:
        bits = self._peek(self._at[:m])
        (other,) = np.nonzero(bits >> np.uint64(63))
        self._at[:m] += 1
        if not len(other):
            return
        bits = bits[other]
        fresh = ((bits >> np.uint64(62)) & np.uint64(1)).astype(np.bool_)
        lead = ((bits >> np.uint64(57)) & np.uint64(31)).astype(np.int64)
        width = ((bits >> np.uint64(51)) & np.uint64(63)).astype(np.int64)
        width[width == 0] = 64
        self._lead[other] = lead = np.where(fresh, lead, self._lead[other])
        self._width[other] = width = np.where(fresh, width, self._width[other])
        trail = 64 - lead - width
        if ((trail < 0) | (width == 0)).any():
            raise TornChunkError("a chunk with a value of more than 64 bits")
        at = self._at[other] + np.where(fresh, 12, 1)
        differs = self._peek(at) >> (64 - width).astype(np.uint64)
        self._value[other] ^= differs << trail.astype(np.uint64)
        self._at[other] = at + width
