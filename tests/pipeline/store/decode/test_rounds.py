"""Joined from the columns, observations of many nodes are what they are node by node."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.replay import parts
from pipeline.store.decode import rounds
from pipeline.store.files.live import live_files
from pipeline.store.keep.compact import compact
from tests import node_day
from tests.pipeline.store.days import later
from tests.pipeline.store.decode.test_odd_stores import HOUR, kept, node
from tests.pipeline.store.keep.test_seal import Seen, same

Said = Mapping[str, list[Seen]]


def one_by_one(root: Path, since_us: int | None = None, until_us: int | None = None) -> Said:
    """Each node's, in its order."""
    found: dict[str, list[Seen]] = {}
    for part in parts(root, since_us=since_us, until_us=until_us):
        for name, own in part.nodes:
            found.setdefault(name, []).extend(own)
    return found


def joined(root: Path, since_us: int | None = None, until_us: int | None = None) -> Said:
    """The same of rounds."""
    found: dict[str, list[Seen]] = {}
    for part in parts(root, since_us=since_us, until_us=until_us):
        for one in part.rounds(part.names()):
            assert len(set(one.names)) == len(one)
            for place, name in enumerate(one.names):
                found.setdefault(name, []).append((one[place], one.then.get(place, ())))
    return found


def equal(root: Path, *span: int) -> int:
    """That both ways give the same, and how many observations that is."""
    alone, together = one_by_one(root, *span), joined(root, *span)
    assert alone.keys() == together.keys()
    for name, own in alone.items():
        same(together[name], own)
    return sum(map(len, alone.values()))


def without(root: Path, kind: str, first: int, last: int) -> None:
    """Rows of a kind are lost, of one file."""
    path = live_files(root, kind)[0]
    rows = pq.read_table(path, partitioning=None)
    schema = pq.read_schema(path)
    some = [n for n in range(len(rows)) if not first <= n < last]
    pq.write_table(rows.take(some).replace_schema_metadata(schema.metadata), path)


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several in a store."""
    monkeypatch.setattr(rounds, "READS_AT_ONCE", 80)
    monkeypatch.setattr(rounds, "READS_OF_ONE", 40)


@pytest.mark.slow
@pytest.mark.parametrize("whole_day", [False, True], ids=["hours", "days"])
def test_random_frames_of_nodes_are_the_same(tmp_path: Path, whole_day: bool) -> None:
    """With missing values, devices that change, events, a boot, and rows that are lost."""
    root = tmp_path / "store"
    nodes = [node(f"n{n}", f"boot-{n}", n + 1, gpus=f"-{n}") for n in range(3)]
    booted = [node("n1", "boot-again", 9, hour=HOUR + 0.5, gpus="-1")[:35]]
    kept(root, nodes[0], nodes[1][:100], nodes[2][::3], *booted)
    without(root, "node", 20, 40)
    without(root, "ib_port", 100, 101)
    if whole_day:
        compact(later(root))
    assert equal(root) > 300
    first_us = nodes[0][0][0].time_ns // 1000
    some = equal(root, first_us + 30_000_000, first_us + 90_000_000)
    assert 50 < some < 200


@pytest.mark.slow
def test_files_that_overlap_give_the_same(tmp_path: Path) -> None:
    """A row that is there twice counts as the later file has it."""
    root = tmp_path / "store"
    kept(root, node("n1", "boot", 1), node("n2", "other", 2, gpus="-2"))
    for path in live_files(root, "ib_port"):
        rows = pq.read_table(path, partitioning=None)
        name = path.name.replace("-0000000000000000", "-0000000000000001")
        pq.write_table(rows.slice(7, 90), path.with_name(name))
    assert equal(root) == 300


@pytest.mark.slow
def test_simulated_nodes_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GPUs, ports and now and then NVLinks, of nodes that do not read them in step."""
    root = tmp_path / "store"
    for number in range(2):
        monkeypatch.setattr(node_day, "HOST", f"n{number}")
        monkeypatch.setattr(node_day, "BOOT", f"boot-{number}")
        day = node_day.observations(90, links_every=3 + number, seed=number + 1)
        kept(root.parent / f"s{number}", [(o, ()) for o in islice(day, 5 * number, None)])
        for path in (root.parent / f"s{number}").rglob("*.parquet"):
            to = root / path.relative_to(root.parent / f"s{number}")
            to.parent.mkdir(parents=True, exist_ok=True)
            path.rename(to)
    assert equal(root) > 300
