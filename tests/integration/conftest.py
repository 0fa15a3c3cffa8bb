"""What several integration tests share: the simulated node-day, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.store.keep.compact import compact
from pipeline.store.keep.generations import Pass
from simulator import node
from tests import node_day
from tests.node_day import MIDNIGHT_NS, Counted

# What is stored, asked and replayed may be of any physics: steps of one second would take half of
# the time that making the day takes.
PHYSICS_S = 10.0
SEGMENT_BYTES = 16 << 20  # so that there are several an hour, as there are of a day at 1 Hz


@pytest.fixture(scope="session")
def day(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Counted]:
    """A simulated node-day, written, sealed and compacted: its store, and what was
    counted while it was written.
    """
    root = tmp_path_factory.mktemp("day")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node, "STEP_S", PHYSICS_S)
        counted = node_day.write(
            root, node_day.observations(step_s=node_day.STEP_S), segment_bytes=SEGMENT_BYTES
        )
    compact(Pass(root, MIDNIGHT_NS // 1000 + 3 * 86_400_000_000))
    return root, counted
