"""Subjects: one host, one subject."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.bus import subjects


@pytest.mark.slow
@given(st.text(min_size=1), st.text(min_size=1))
def test_two_hosts_never_share_a_subject(one: str, other: str) -> None:
    """Whatever their names hold: otherwise one could publish as the other."""
    assert (subjects.frames("c", one) == subjects.frames("c", other)) == (one == other)


@pytest.mark.slow
@given(st.text(min_size=1))
def test_a_name_is_one_token(name: str) -> None:
    """Letters, digits, dash and underscore only."""
    token = subjects.token(name)
    assert token
    assert token.isascii()
    assert token.replace("-", "").replace("_", "").isalnum() or set(token) <= set("-_")
