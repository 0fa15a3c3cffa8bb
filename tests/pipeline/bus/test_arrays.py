"""Arrays of few bytes: every bit comes back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pipeline.bus.arrays import (
    as_words,
    differences,
    from_words,
    pack_words,
    sums,
    unpack_words,
)

SHAPES = hnp.array_shapes(min_dims=3, max_dims=3, min_side=0, max_side=5)


@pytest.mark.slow
@given(hnp.arrays(np.uint64, SHAPES))
def test_words_come_back(values: np.ndarray[tuple[int, ...], np.dtype[np.uint64]]) -> None:
    """Any numbers, also those that wrap from one sample to the next."""
    assert np.array_equal(sums(differences(values)), values)
    assert np.array_equal(unpack_words(pack_words(values.reshape(-1))), values.reshape(-1))


@pytest.mark.slow
@given(
    hnp.arrays(
        np.float64, SHAPES, elements=st.floats() | st.integers(-9, 9).map(float) | st.just(-0.0)
    )
)
def test_readings_come_back_bit_for_bit(
    values: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> None:
    """Infinities, negative zeros and the largest numbers too; a missing one is 0."""
    words, whole = as_words(values)
    samples, _, devices = values.shape
    rows = words.reshape(samples, words.size // max(1, samples))
    back = from_words(rows, np.repeat(whole, devices)).reshape(values.shape)
    seen = ~np.isnan(values)
    assert np.array_equal(back[seen].view(np.uint64), values[seen].view(np.uint64))
    assert not back[~seen].any()


def test_a_slow_column_is_small_steps() -> None:
    """A large counter that rises by one is, after its first sample, a byte of 2 and zeros."""
    values = np.arange(10**15, 10**15 + 50, dtype=np.uint64)
    planes = np.frombuffer(pack_words(differences(values)), np.uint8).reshape(8, -1)
    assert planes[0, 1:].tolist() == [2] * 49
    assert not planes[1:, 1:].any()


def test_bytes_that_are_no_words_are_refused() -> None:
    """A torn array is not read as a shorter one."""
    with pytest.raises(ValueError, match="reshape"):
        unpack_words(bytes(15))
