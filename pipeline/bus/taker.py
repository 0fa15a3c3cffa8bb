"""Reads the values of a batch: arrays of bits and of words, in the order they were written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pipeline.bus.arrays import pack_words, unpack_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

BYTE = 8  # bits


def pack(bits: Sequence[NDArray[np.bool_]], words: Sequence[NDArray[np.uint64]]) -> list[bytes]:
    """All bits, and all words, as bytes."""
    flat = [array.reshape(-1) for array in bits]
    numbers = [array.reshape(-1) for array in words]
    return [
        np.packbits(np.concatenate([np.zeros(0, np.bool_), *flat])).tobytes(),
        pack_words(np.concatenate([np.zeros(0, np.uint64), *numbers])),
    ]


class Taker:
    """Takes one array after the other. ValueError where there is less than is taken."""

    def __init__(self, bits: memoryview, words: memoryview) -> None:
        self._bits = np.unpackbits(np.frombuffer(bits, np.uint8)).view(np.bool_)
        self._words = unpack_words(words)
        self._bit = self._word = 0

    def bits(self, count: int) -> NDArray[np.bool_]:
        """So many bits."""
        begin, self._bit = self._bit, self._bit + count
        if self._bit > len(self._bits):
            raise ValueError(f"ends {self._bit - len(self._bits)} bits early")
        return self._bits[begin : self._bit]

    def words(self, count: int) -> NDArray[np.uint64]:
        """So many words."""
        begin, self._word = self._word, self._word + count
        if self._word > len(self._words):
            raise ValueError(f"ends {self._word - len(self._words)} words early")
        return self._words[begin : self._word]

    def end(self) -> None:
        """ValueError where something is left."""
        if left := len(self._words) - self._word:
            raise ValueError(f"{left} words too many")
        if (bits := len(self._bits) - self._bit) >= BYTE:
            raise ValueError(f"{bits} bits too many")
