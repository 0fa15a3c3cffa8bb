"""A store is read some nodes at a time, and what is in memory is theirs alone."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from collector.replaying.passes import in_passes
from collector.replaying.stored import Span, stored
from pipeline.observation import Observation
from pipeline.store.keep.compact import compact
from tests.pipeline.store.days import later
from tests.pipeline.store.decode.test_odd_stores import HOUR, kept, node

NODES = 4


def read(root: Path, at_once: int) -> tuple[dict[str, list[Observation]], list[int], int]:
    """Each node's observations, the hours' ends as they came, and the most bytes of columns that
    were held.
    """
    found: dict[str, list[Observation]] = {}
    ends, most, before = [], 0, pa.total_allocated_bytes()
    for hours in in_passes(root, Span(), at_once):
        assert hours.joined is not None
        assert len(hours.joined.names) <= at_once
        most = max(most, pa.total_allocated_bytes() - before)
        ends.append(hours.end_us)
        for one in hours.joined.rounds(hours.joined.names):
            for place, name in enumerate(one.names):
                found.setdefault(name, []).append(one[place])
    return found, ends, most


def open_files() -> int:
    """How many Parquet files the process has open."""
    found = 0
    for fd in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found += fd.readlink().suffix == ".parquet"
    return found


@pytest.mark.slow
def test_passes_share_the_files_that_may_be_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of compacted days all stay open for their other hours: however many passes there are, no
    more than half of what the process may open.
    """
    root = tmp_path / "store"
    lives = [(n, h) for n in range(NODES) for h in (0, 1)]
    kept(root, *(node(f"n{n}", f"b{n}{h}", n + 1, hour=HOUR + h) for n, h in lives))
    compact(later(root))
    wanted = read(root, 1)[0]
    monkeypatch.setattr("pipeline.store.decode.shelf.getrlimit", lambda _: (16, 16))
    most, found = 0, 0
    for hours in in_passes(root, Span(), 1):
        assert hours.joined is not None
        found += sum(len(one) for one in hours.joined.rounds(hours.joined.names))
        most = max(most, open_files())
    assert found == sum(map(len, wanted.values()))
    assert 0 < most <= 8


@pytest.mark.slow
@pytest.mark.parametrize("whole_day", [False, True], ids=["hours", "days"])
def test_nodes_are_read_in_passes_that_hold_no_others(tmp_path: Path, whole_day: bool) -> None:
    """The same observations, hour by hour; rows of a pass that was read are let go of."""
    root = tmp_path / "store"
    lives = [(n, h) for n in range(NODES) for h in (0, 1) if (n, h) != (2, 0)]
    kept(root, *(node(f"n{n}", f"b{n}{h}", n + 1, hour=HOUR + h, gpus=f"-{n}") for n, h in lives))
    if whole_day:
        compact(later(root))
    alone, ends, most = read(root, 1)
    every: dict[str, list[Observation]] = {}
    for one in stored(root, Span()):
        every.setdefault(one.observation.host, []).append(one.observation)
    assert alone == every
    assert ends == sorted(ends)
    if not whole_day:  # of a day's file, groups of few rows stay for its other hours
        assert most < 0.6 * read(root, NODES)[2]
