"""Base units of whole columns are those of the catalogue, value by value."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.catalog import FIELDS, Field
from pipeline.store.files.units import base_value


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(
    st.sampled_from([f for f in FIELDS if not f.states]),
    st.lists(st.one_of(st.none(), st.integers(0, 2**53)), min_size=1),
)
def test_columns_scale_as_the_catalogue_does(field: Field, values: list[int | None]) -> None:
    """Rounded once, to the last bit; nothing stays nothing and zero stays zero."""
    rows = pl.LazyFrame({"x": pl.Series(values, dtype=pl.UInt64)})
    found = rows.select(base_value(field, pl.col("x"))).collect().to_series().to_list()
    assert found == [None if value is None else float(field.base(value)) for value in values]
