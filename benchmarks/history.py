"""What it costs to have stored rows as observations again, beside the least that can be asked of
pyarrow: to decode the same columns once, whole files at a time; and what it costs to judge many
nodes again, from store to findings, by how many are judged at once.

Nodes are simulated, 8 GPUs, 8 ports and 144 NVLinks at 1 Hz, written and sealed as agents do. CPU
of one thread; both sides in turn, so that the ratio holds where the machine's speed drifts.
"""

from __future__ import annotations

import gc
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from collector.agent.judge import node_horizon_of
from collector.config.settings import Config
from collector.replaying.nodes import NODES_AT_ONCE, JudgedRound, rejudge_hours
from collector.replaying.stored import Span, stored_hours
from pipeline.catalog import KINDS
from pipeline.clock import SystemClock
from pipeline.replay import replay
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.live import live_files
from pipeline.store.files.wal import Wal, segments
from pipeline.store.keep.seal import seal
from tests import node_day
from tests.fakes import FakeClock

SECONDS, NODES, ROUNDS = 900, 2, 5
GOAL = 4.0  # times what pyarrow takes for every column
# Of many nodes: as many and as long as are simulated in half a minute.
MANY, MANY_SECONDS, AT_ONCE = 64, 240, (8, NODES_AT_ONCE)
MANY_GOAL = 500.0  # node-days per core-hour, store to findings
DAY_S, HOUR_S = 86_400, 3_600


def main() -> int:
    """Print the figures; 1 where the goal is missed."""
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for number in range(NODES):
            _node(root, number)
        ours, limit = _pairs(lambda: _replayed(root), lambda: _decoded(root))
    per_second = statistics.median(ours) / SECONDS / NODES
    ratio = statistics.median(a / b for a, b in zip(ours, limit, strict=True))
    print(f"Python {platform.python_version()}, pyarrow {pa.__version__}")
    print(
        f"a second of a node: {per_second * 1e6:.0f} us as observations, "
        f"{statistics.median(limit) / SECONDS / NODES * 1e6:.0f} us as columns of pyarrow; "
        f"{_node_days(per_second):.0f} node-days per core-hour before judging"
    )
    print(f"ratio {ratio:.2f}, goal {GOAL}: {'met' if ratio <= GOAL else 'MISSED'}")
    return int(ratio > GOAL) | _many()


def _many() -> int:
    """Print what many nodes cost; 1 where the goal is missed."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for number in range(MANY):
            _node(root, number, MANY_SECONDS)
        decoded = _spent(lambda: _replayed(root))
        joined = _spent(lambda: _rounds(root))
        judged = [_spent(partial(_judged, root, at_once)) for at_once in AT_ONCE]
    print(
        f"{MANY} nodes, {MANY_SECONDS} s each: {decoded * 1e6:.0f} us a second of a node as "
        f"observations, {joined * 1e6:.0f} us joined"
    )
    for at_once, spent in zip(AT_ONCE, judged, strict=True):
        print(
            f"store to findings, {at_once} at once: {spent * 1e6:.0f} us, "
            f"{_node_days(spent):.0f} node-days per core-hour"
        )
    met = _node_days(judged[-1]) >= MANY_GOAL
    print(
        f"ratio {judged[-1] / judged[0]:.2f} of {AT_ONCE[0]} at once; goal {MANY_GOAL:.0f} "
        f"node-days per core-hour: {'met' if met else 'MISSED'}"
    )
    return int(not met)


def _node_days(per_second: float) -> float:
    """Days of a node that an hour of a core judges."""
    return HOUR_S / per_second / DAY_S


def _spent(work: Callable[[], int]) -> float:
    """CPU seconds per second of one of many nodes."""
    gc.collect()
    began = time.process_time()
    assert work()
    return (time.process_time() - began) / MANY / MANY_SECONDS


def _judged(root: Path, at_once: int) -> int:
    """Observations that were judged, by agents as they are installed."""
    made = lambda: node_horizon_of(Config(), SelfMetrics(), SystemClock())  # noqa: E731
    hours = rejudge_hours(stored_hours(root, Span()), made, at_once)
    return sum(
        len(one.round) if isinstance(one, JudgedRound) else 1 for _, every in hours for one in every
    )


def _pairs(ours: Callable[[], int], limit: Callable[[], int]) -> tuple[list[float], list[float]]:
    """CPU seconds of each side, in turn; the first round warms up."""
    spent: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS + 1):
        for side, work in zip(spent, (ours, limit), strict=True):
            gc.collect()
            began = time.process_time()
            assert work()
            side.append(time.process_time() - began)
    return spent[0][1:], spent[1][1:]


def _rounds(root: Path) -> int:
    """Observations of all nodes, joined."""
    return sum(
        len(one)
        for hours in stored_hours(root, Span())
        if hours.joined is not None
        for one in hours.joined.rounds(hours.joined.names)
    )


def _replayed(root: Path) -> int:
    """Observations of all nodes."""
    return sum(len(observation.frames) for observation, _ in replay(root))


def _decoded(root: Path) -> int:
    """Every column of every file of readings, as it is stored."""
    rows = 0
    for kind in KINDS:
        for path in live_files(root, kind):
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                rows += len(file.read(use_threads=False))
    return rows


def _node(root: Path, number: int, seconds: int = SECONDS) -> None:
    """So long of one node, sealed."""
    node_day.HOST, node_day.BOOT = f"n{number}", f"boot-{number}"
    folder = root.parent / f"{root.name}-wal-{number}"
    log = Wal(folder, FakeClock(), SelfMetrics(), fsync_s=1e9, segment_bytes=1 << 30, segment_s=1e9)
    for observation in node_day.observations(seconds, links_every=5, seed=number + 1):
        log.write(observation, ())
    log.close()
    for segment in segments(folder):
        seal(segment, root, "c1")
    folder.rmdir()


if __name__ == "__main__":
    sys.exit(main())
