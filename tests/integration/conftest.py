"""What several integration tests share: the simulated node-day, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.store.keep.compact import compact
from pipeline.store.keep.generations import Pass
from tests import node_day
from tests.node_day import MIDNIGHT_NS, Counted


@pytest.fixture(scope="session")
def day(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Counted]:
    """A simulated node-day, written, sealed and compacted: its store, and what was
    counted while it was written.
    """
    root = tmp_path_factory.mktemp("day")
    counted = node_day.write(root, node_day.observations(step_s=node_day.STEP_S))
    compact(Pass(root, MIDNIGHT_NS // 1000 + 3 * 86_400_000_000))
    return root, counted
