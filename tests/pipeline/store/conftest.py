"""Stores of tests are written in memory: each of their many files is synced, with its folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import memory


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """A folder of the test."""
    with memory.folder(tmp_path) as place:
        yield place
