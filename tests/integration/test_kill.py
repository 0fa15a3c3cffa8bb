"""kill -9 at random instants of a writer that writes, seals and compacts: nothing acknowledged is
lost, no row twice, no file unreadable.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.replay import replay
from pipeline.store.files.live import live_files
from pipeline.store.files.parquet import read
from pipeline.store.files.schema import TABLES
from pipeline.store.files.wal import segments
from pipeline.store.keep.compact import compact
from pipeline.store.keep.seal import seal
from tests import memory
from tests.pipeline.store.days import later
from tests.sources import ROOT

pytestmark = pytest.mark.integration

HOUSES, LIVES = 10, 6  # sixty trials


@pytest.fixture
def writer() -> Iterator[subprocess.Popen[str]]:
    """The process that forks and kills writers."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from "
        "tests.integration.killed_writer import main; main()"
    )
    with subprocess.Popen(
        [sys.executable, "-I", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.stdin.close() if process.stdin else None


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory: a kill keeps whatever was written, on any file system, and dozens of trials
    sync a lot.
    """
    with memory.folder(tmp_path) as place:
        yield place


def lives(writer: subprocess.Popen[str], root: Path, rng: random.Random) -> list[list[int]]:
    """Several lives in one directory, each killed; what each had acknowledged."""
    told = []
    for life in range(LIVES):
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdin.write(
            f"{root} {life * 100_000} {rng.randint(0, 50)} {rng.randint(0, 30_000)}\n"
        )
        writer.stdin.flush()
        told.append([int(seq) for seq in writer.stdout.readline().split()])
    return told


def recover(root: Path) -> None:
    """What the next start does."""
    for segment in segments(root / "wal"):
        seal(segment, root, "c1")


def test_sixty_kills_lose_nothing_that_was_acknowledged(
    writer: subprocess.Popen[str], folder: Path
) -> None:
    """A kill keeps the page cache: each life's observations come back from the first to at least
    the last acknowledged, each once.
    """
    rng = random.Random(20261120)
    compacted = 0
    for house in range(HOUSES):
        root = folder / str(house)
        told = lives(writer, root, rng)
        compacted += len(list(root.glob("*/date=*/*-day-*.parquet")))
        recover(root)
        for _ in range(2):  # as it is, and compacted
            back = Counter(o.seq for o, _ in replay(root))
            assert set(back.values()) <= {1}
            for life, acknowledged in enumerate(told):
                begin = life * 100_000
                mine = sorted(seq for seq in back if begin <= seq < begin + 100_000)
                assert mine == list(range(begin, begin + len(mine)))
                assert len(acknowledged) <= len(mine) <= len(acknowledged) + 1
            rows = sum(read(path, "node").num_rows for path in live_files(root, "node"))
            assert rows == 3 * len(back)
            assert compact(later(root)).quarantined == []
        assert not (root / "quarantine").exists()
    assert compacted > HOUSES  # the killed ones were at it


def test_every_file_that_has_its_name_can_be_read(
    writer: subprocess.Popen[str], folder: Path
) -> None:
    """Whatever a kill leaves under a real name is whole, before anybody recovers anything."""
    rng = random.Random(7)
    root = folder / "house"
    for _ in range(4):
        lives(writer, root, rng)
        for table in TABLES:
            for path in live_files(root, table):
                read(path, table)
