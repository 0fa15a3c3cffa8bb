"""A node with real tenants for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tenants.node import Node


@pytest.fixture
def node() -> Iterator[Node]:
    """A node without tenants."""
    made = Node()
    yield made
    made.close()
