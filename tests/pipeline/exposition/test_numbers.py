"""Numbers as text: byte for byte those of prometheus_client."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.utils import floatToGoString

from pipeline.exposition.numbers import float_texts, integer_text, whole_texts


@pytest.mark.slow
@given(st.lists(st.floats(), max_size=20))
def test_floats_are_those_of_the_client(values: list[float]) -> None:
    """Any float64, NaN, infinities, subnormals and negative zero included."""
    assert float_texts(np.array(values)) == [floatToGoString(v).encode() for v in values]  # type: ignore[no-untyped-call]


@pytest.mark.slow
@given(st.lists(st.floats(allow_nan=False), max_size=20))
def test_floats_parse_back_to_themselves(values: list[float]) -> None:
    """Nothing is lost in the text."""
    assert [float(text) for text in float_texts(np.array(values))] == values


@pytest.mark.slow
@given(st.lists(st.integers(-(2**62), 2**62), max_size=20))
def test_whole_numbers_have_all_digits(values: list[int]) -> None:
    """A float64 that is whole is printed as the integer it is."""
    floats = [float(v) for v in values]
    assert [int(text) for text in whole_texts(np.array(floats))] == [int(v) for v in floats]


@pytest.mark.parametrize("value", [0, 1, 2147483632, 2**53 + 1, 2**63, 2**64 - 1])
def test_unscaled_integers_keep_every_digit(value: int) -> None:
    """Values beyond float64's 53 bits and DCGM's sentinels are numbers like any other."""
    assert integer_text(value, 1, 1, whole=False) == str(value).encode()


@given(st.integers(0, 2**64 - 1), st.sampled_from([(1, 1000), (1, 10**9), (1024, 1000), (3, 7)]))
def test_scaled_integers_are_correctly_rounded(value: int, scale: tuple[int, int]) -> None:
    """The float printed is the one nearest to the exact quotient: rounded once, not twice."""
    times, per = scale
    shown = float(integer_text(value, times, per, whole=False))
    exact = Fraction(value * times, per)
    assert abs(Fraction(shown) - exact) <= min(
        abs(Fraction(math.nextafter(shown, side)) - exact) for side in (-math.inf, math.inf)
    )


def test_whole_scaling_truncates() -> None:
    """DCGM's integers drop what is behind the point."""
    assert integer_text(1999, 1, 1000, whole=True) == b"1"
