"""What brokers that fail leave behind."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def _collected() -> Iterator[None]:
    """nats-py leaves the streams of attempts that failed to the garbage collector, which warns:
    here, where that is no failure, and not in the test that comes next.
    """
    yield
    gc.collect()
