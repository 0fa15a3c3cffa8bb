"""A node whose kernel log is fed line by line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.collector.sources.kmsg.logs import Node


@pytest.fixture
def node() -> Iterator[Node]:
    """A node with two GPUs and a ring; its sources and sockets are closed in the end."""
    made = Node()
    yield made
    made.close()
