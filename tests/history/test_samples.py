"""Samples of remote read are decoded as protobuf decodes them, whatever they are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from history.site.messages import message
from history.site.samples import arrays

pytestmark = pytest.mark.slow

TIMES = st.one_of(
    st.integers(1_600_000_000_000, 1_900_000_000_000), st.integers(-(2**63), 2**63 - 1)
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(TIMES, st.floats(width=64)), max_size=30))
def test_samples_are_what_protobuf_says(pairs: list[tuple[int, float]]) -> None:
    """Zeros, NaN, stale markers, times of any century."""
    sample = message("Sample")
    encoded = [sample(timestamp=t, value=v).SerializeToString() for t, v in pairs]
    times, values = arrays(encoded)
    assert times.tolist() == [t for t, _ in pairs]
    assert all(
        got == wanted or (math.isnan(got) and math.isnan(wanted))
        for got, (_, wanted) in zip(values.tolist(), pairs, strict=True)
    )


def test_fields_in_another_order_or_beside_others_are_read() -> None:
    """What a newer server may send."""
    swapped = bytes([0x10, *_varint(1_795_266_000_000), 0x09]) + np.float64(4.5).tobytes()
    more = bytes([0x18, 7]) + swapped
    for encoded in (swapped, more):
        times, values = arrays([encoded])
        assert (times.tolist(), values.tolist()) == ([1_795_266_000_000], [4.5])


def test_a_torn_sample_is_an_error() -> None:
    """Never a number."""
    for torn in (b"\x09abc", b"\xff" * 16, b"\xff" * 7):
        with pytest.raises(DecodeError):
            arrays([torn])


def _varint(value: int) -> list[int]:
    groups = []
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return [*groups, value]
