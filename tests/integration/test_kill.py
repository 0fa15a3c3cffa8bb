"""kill -9 at random instants of a writer that writes, seals and compacts, and flipped bits in what
it wrote: nothing acknowledged is lost, no row twice, no damage that is not reported.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.store.files.live import live_files
from pipeline.store.files.parquet import read
from pipeline.store.files.schema import TABLES
from tests import memory
from tests.integration.store_proof import flips, kills, lives, writer

pytestmark = pytest.mark.integration

KILLS, FLIPS = 60, 12  # `make store-proof` does 500 and 200


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory: a kill keeps whatever was written, on any file system, and dozens of trials
    sync a lot.
    """
    with memory.folder(tmp_path) as place:
        yield place


def test_sixty_kills_lose_nothing_that_was_acknowledged(folder: Path) -> None:
    """A kill keeps the page cache: each life's observations come back from the first to at least
    the last acknowledged, each once.
    """
    counts = kills(folder, KILLS, seed=20261120)
    assert counts["kills"] == KILLS
    assert counts["compacted"] > KILLS // 6  # the killed ones were at it


def test_a_flipped_bit_is_reported_or_changes_nothing(folder: Path) -> None:
    """In a segment of the log it costs one observation at most, in a sealed file what is in it."""
    counts = flips(folder, FLIPS, seed=3)
    assert counts["wal reported"] == counts["wal flips"]
    assert counts["parquet reported"] + counts["parquet without effect"] == counts["parquet flips"]
    assert counts["parquet reported"] + counts["wal reported"] > FLIPS // 2


def test_every_file_that_has_its_name_can_be_read(folder: Path) -> None:
    """Whatever a kill leaves under a real name is whole, before anybody recovers anything."""
    rng = random.Random(7)
    root = folder / "house"
    with writer() as process:
        for _ in range(4):
            lives(process, root, rng)
            for table in TABLES:
                for path in live_files(root, table):
                    read(path, table)
