"""Stores of many nodes as they are found: what cannot be read is named, the other nodes are judged
as if nothing were, and nothing is joined that does not belong together.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from collector.replaying.fleet import rejudge_fleet
from collector.replaying.nodes import rejudge_nodes
from collector.replaying.stored import Span, stored_hours
from detectors.node_horizon import NodeHorizon
from detectors.paging import in_service, judge_in_service
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics
from tests.collector.replaying.kept import keep
from tests.contracts.horizon.sides import Said, take
from tests.contracts.horizon.world import Life, simulated, struck
from tests.fakes import FakeClock

# Cheap ones, of GPUs, ports and events.
detectors = partial(in_service, ("availability", "ib_link", "xid", "throttle"))
PERIODS = dict.fromkeys(("nvml", "infiniband", "kmsg", "jobs"), 10.0) | {"host": 60.0}
ODD = "node-0001"  # with which something is wrong


def nodes(root: Path) -> Said:
    """What is said at horizon node, by host."""
    said: Said = {}
    hours = stored_hours(root, Span())
    for one in rejudge_nodes(hours, lambda: NodeHorizon(detectors, None, PERIODS)):
        take(said, one.now)
    return said


def fleet(root: Path) -> set[str]:
    """Hosts that are judged at horizon fleet; it raises where nodes are joined wrongly."""
    judge = judge_in_service(SelfMetrics(), FakeClock(), PERIODS, detectors())
    every = rejudge_fleet(stored_hours(root, Span()), judge, None)
    return {
        device.host
        for one in every
        for frame in one.now.observation.frames
        for device in frame.devices
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Said]:
    """A store of three nodes, and what is said of it."""
    root, rng = tmp_path_factory.mktemp("whole") / "store", np.random.default_rng(2)
    lives = (Life(5_000.0), Life(12.0, missed=0.1), Life(86_391.0))
    for agent in simulated("F06", lives, days=0.004, seed=3):
        keep(root, [JudgedObservation(one) for one in struck(agent, rng)])
    return root, nodes(root)


def files(root: Path, table: str, host: str) -> list[Path]:
    """Files of a table with rows of a host."""
    return [
        path
        for path in root.rglob("*.parquet")
        if table in path.parts and host in pq.read_table(path)["host"].to_pylist()
    ]


def damaged(root: Path) -> str:
    """A file of GPUs ends in the middle."""
    for path in files(root, "gpu", ODD):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return "skipped"


def without_table(root: Path) -> str:
    """The ports of a node are gone."""
    for path in files(root, "ib_port", ODD):
        path.unlink()
    return ""


def newer(root: Path) -> str:
    """A node writes a column that this version does not know."""
    for path in files(root, "gpu", ODD):
        table = pq.read_table(path)
        metadata = table.schema.metadata
        table = table.append_column("quark_spin", pa.array([1.0] * len(table)))
        pq.write_table(table.replace_schema_metadata(metadata), path)
    return "newer version"


@pytest.mark.slow
@pytest.mark.parametrize("odd", [damaged, without_table, newer])
def test_what_is_wrong_with_one_node_changes_nothing_for_the_others(
    odd: Callable[[Path], str],
    whole: tuple[Path, Said],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is named, and judged as far as it goes."""
    root, said = tmp_path / "store", whole[1]
    shutil.copytree(whole[0], root)
    with caplog.at_level(logging.WARNING):
        named = odd(root)
        found = nodes(root)
    assert any(named in message for message in caplog.messages) or not named
    assert set(found) == set(said)
    others = set(said) - {ODD}
    assert {host: found[host] for host in others} == {host: said[host] for host in others}
    assert all(said.values())
    assert fleet(root) == set(said)


@pytest.mark.slow
def test_hours_that_are_out_of_order_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What a clock that was set back by days wrote comes too late, and is left out."""
    begin_ns, day_ns = 1_800_000_000 * 10**9, 86_400 * 10**9

    def seen(number: int, time_ns: int) -> JudgedObservation:
        return JudgedObservation(Observation("jobs", "n1", "b", number, time_ns, number + 1, 0))

    early = [seen(n, begin_ns + n * 10**9) for n in range(100, 120)]
    keep(tmp_path / "store", early)
    keep(tmp_path / "store", [seen(n, begin_ns + 3 * day_ns + n * 10**9) for n in range(20)])
    with caplog.at_level(logging.WARNING):
        hours = stored_hours(tmp_path / "store", Span())
        every = rejudge_nodes(hours, lambda: NodeHorizon(detectors, None, PERIODS))
        numbers = [one.now.observation.seq for one in every]
    assert numbers == [one.observation.seq for one in early]
    assert any("out of order" in message for message in caplog.messages)
