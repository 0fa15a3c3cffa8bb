"""Distinct numbers: what numpy gives, without masked arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from pipeline.distinct import distinct


@pytest.mark.slow
@given(hnp.arrays(np.int64, hnp.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=9)))
def test_distinct_numbers_are_those_of_numpy(numbers: NDArray[np.int64]) -> None:
    """In order, each once, of one dimension; none of an empty array."""
    assert distinct(numbers).tolist() == np.unique(numbers).tolist()
