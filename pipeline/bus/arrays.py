"""Arrays of few bytes: samples of a period, each column as differences along time.

A column that changes little becomes small differences; their bytes, sorted by significance, are
mostly zero, which is what compressors are good at (the shuffle filter of HDF5 and Blosc). All
arithmetic is modulo 2^64: no counter is too large, no difference too far, and every bit comes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

EXACT = 2.0**53  # beyond it not every whole number is a float64
WORD = 8  # bytes


def pack_words(values: NDArray[np.uint64]) -> bytes:
    """Whole numbers (sample, ...), as many bytes as they have.

    >>> unpack_words(pack_words(np.array([[5], [2**64 - 1]], np.uint64)), (2, 1)).tolist()
    [[5], [18446744073709551615]]
    """
    steps = values.copy()
    steps[1:] -= values[:-1]
    signed = steps.view(np.int64)
    zigzag = (steps << np.uint64(1)) ^ (signed >> np.int64(63)).view(np.uint64)
    return np.ascontiguousarray(zigzag.reshape(-1).view(np.uint8).reshape(-1, WORD).T).tobytes()


def unpack_words(raw: bytes | memoryview, shape: tuple[int, ...]) -> NDArray[np.uint64]:
    """What ``pack_words`` was given. ValueError where the bytes are not as many as the shape."""
    planes = np.frombuffer(raw, np.uint8).reshape(WORD, int(np.prod(shape)))
    zigzag = np.ascontiguousarray(planes.T).view(np.uint64).reshape(shape)
    sign = np.uint64(0) - (zigzag & np.uint64(1))
    return np.cumsum((zigzag >> np.uint64(1)) ^ sign, axis=0, dtype=np.uint64)


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


def from_words(
    words: NDArray[np.uint64], whole: NDArray[np.bool_], absent: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """What ``as_words`` was given, with NaN where ``absent``."""
    numbers = words.view(np.int64).astype(np.float64)
    values = np.where(whole[:, None], numbers, words.view(np.float64))
    return np.where(absent, np.nan, values)
