"""Arrays of few bytes: samples of a period, each column as differences along time.

A column that changes little becomes small differences; their bytes, sorted by significance, are
mostly zero, which is what compressors are good at (the shuffle filter of HDF5 and Blosc). All
arithmetic is modulo 2^64: no counter is too large, no difference too far, and every bit comes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pipeline.small_arrays import all_true

if TYPE_CHECKING:
    from numpy.typing import NDArray

EXACT = 2.0**53  # beyond it not every whole number is a float64
WORD = 8  # bytes
ONE = np.uint64(1)


def differences(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Each sample (sample, ...) less the one before it; the first one stays.

    >>> differences(np.array([7, 9, 8], np.uint64)).view(np.int64)
    array([ 7,  2, -1])
    """
    steps = values.copy()
    steps[1:] -= values[:-1]
    return steps


def sums(steps: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """What ``differences`` was given.

    >>> sums(differences(np.array([7, 9, 8], np.uint64)))
    array([7, 9, 8], dtype=uint64)
    """
    # Not cumsum along the axis: for few samples of many columns a loop is several times as fast.
    values = steps.copy()
    for sample in range(1, len(values)):
        values[sample : sample + 1] += values[sample - 1 : sample]
    return values


def pack_words(words: NDArray[np.uint64]) -> bytes:
    """Numbers near zero, of either sign (word,), as many bytes as they have.

    >>> unpack_words(pack_words(np.array([5, 2**64 - 1], np.uint64)))
    array([                   5, 18446744073709551615], dtype=uint64)
    """
    zigzag = (words << ONE) ^ (words.view(np.int64) >> np.int64(63)).view(np.uint64)
    return np.ascontiguousarray(zigzag.view(np.uint8).reshape(-1, WORD).T).tobytes()


def unpack_words(raw: bytes | memoryview) -> NDArray[np.uint64]:
    """What ``pack_words`` was given. ValueError where the bytes are no whole words."""
    planes = np.frombuffer(raw, np.uint8).reshape(WORD, len(raw) // WORD)
    sorted_ = np.empty((planes.shape[1], WORD), np.uint8)
    for byte, plane in enumerate(planes):  # in one step it takes half as long again
        sorted_[:, byte] = plane
    zigzag = sorted_.view(np.uint64).reshape(-1)
    return (zigzag >> ONE) ^ (np.uint64(0) - (zigzag & ONE))


def as_words(values: NDArray[np.float64]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Readings (sample, column, device) as words, and which columns (column,) are whole numbers.

    Those are stored as the numbers, others as the bits of the float64; NaN is 0 in either: the
    caller keeps a mask.
    """
    seen = np.where(np.isnan(values), 0.0, values)
    fits = (np.abs(seen) < EXACT) & (np.trunc(seen) == seen) & ~((seen == 0) & np.signbit(seen))
    whole: NDArray[np.bool_] = fits.all(axis=(0, 2))
    numbers = np.where(whole[:, None], seen, 0.0).astype(np.int64).view(np.uint64)
    return np.where(whole[:, None], numbers, seen.view(np.uint64)), whole


def from_words(words: NDArray[np.uint64], whole: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Words (sample, word) as readings; those that are not ``whole`` (word,) are bits of a
    float64.
    """
    values = words.view(np.int64).astype(np.float64)
    if not all_true(whole):
        np.copyto(values, words.view(np.float64), where=~whole)
    return values
