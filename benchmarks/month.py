"""A month of a fleet judged again by ``tocsin replay``: CPU per reading of a node of all its
sources, memory, and what 30 days would take of one core, from a part of it that really runs.

A simulated healthy fleet with all its sources, written and sealed as its agents do: 200 nodes each
60 s by default, so many hours of them. ``python -m benchmarks.month --nodes 200 --step 1 --hours
0.25`` is a part of a day at 1 Hz, for memory.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pyarrow as pa

from collector.cli import main as tocsin
from collector.replaying.passes import hours_in
from collector.replaying.stored import Span
from collector.replaying.width import nodes_at_once
from evaluation.metrics.scope import ByHost
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.wal import Wal, segments
from pipeline.store.keep.compact import compact
from pipeline.store.keep.seal import seal
from simulator.fleet import load_scenario, render
from tests.fakes import FakeClock
from tests.pipeline.store.days import later

SCENARIO, SEED = "H00", 7
DAYS, DAY_S = 30.0, 86_400.0
GOAL_HOURS, MAX_MIB = 1.0, 2048.0


def observations(nodes: int, step_s: float, hours: float) -> Iterator[Observation]:
    """As each agent of the fleet has read them."""
    run = render(load_scenario(SCENARIO), SEED, step_s=step_s, days=hours / 24, nodes=nodes)
    cut, count = ByHost(), dict[str, int]()
    for whole in run.observations():
        for host, part in cut.split(whole):
            count[host] = count.get(host, 0) + 1
            frames = tuple(replace(frame, increments=None) for frame in part.frames)
            yield replace(part, boot_id=f"boot of {host}", seq=count[host], frames=frames)


def write(root: Path, seen: Iterator[Observation]) -> None:
    """Into the store, by an agent of each node."""
    logs: dict[str, Wal] = {}
    for one in seen:
        if one.host not in logs:
            folder = root.parent / "logs" / one.host
            logs[one.host] = Wal(folder, FakeClock(), SelfMetrics(), fsync_s=1e9, max_bytes=1 << 40)
        logs[one.host].write(one, ())
    for host, log in logs.items():
        log.close()
        for segment in segments(root.parent / "logs" / host):
            seal(segment, root, "c1")


def replayed(root: Path) -> tuple[float, str]:
    """CPU seconds of a replay of all, and what it says at its end."""
    said = StringIO()
    began = time.process_time()
    with redirect_stdout(StringIO()), redirect_stderr(said):
        assert tocsin(["replay", "--from", str(root)]) == 0
    return time.process_time() - began, said.getvalue().splitlines()[-1]


def measure(root: Path, nodes: int, step_s: float, hours: float, words: str) -> float:
    """Hours of a core that a month takes; printed."""
    spent, said = replayed(root)
    sweeps = nodes * hours * 3600 / step_s
    month = spent / sweeps * nodes * DAYS * DAY_S / step_s / 3600
    print(
        f"{words}: {spent / sweeps * 1e6:.0f} us for each of {sweeps:,.0f} readings of a node; "
        f"{DAYS:.0f} days: {month:.2f} hours of a core"
    )
    print(said)
    return month


def main() -> int:
    """Print the figures; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--step", type=float, default=60.0, help="seconds between two readings")
    parser.add_argument("--hours", type=float, default=3.0, help="of simulated time")
    args = parser.parse_args()
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as folder:
        warm, root = Path(folder) / "warm" / "store", Path(folder) / "fleet" / "store"
        write(warm, observations(2, args.step, 10 * args.step / 3600))  # modules are loaded
        replayed(warm)
        write(root, observations(args.nodes, args.step, args.hours))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        at_once = nodes_at_once(root, hours_in(root, Span()))
        print(f"{args.nodes} nodes each {args.step:g} s, {at_once} at once, {args.hours:g} hours")
        of_hours = measure(root, args.nodes, args.step, args.hours, "as sealed")
        compact(later(root))
        of_days = measure(root, args.nodes, args.step, args.hours, "compacted")
        mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{mib:.0f} MiB at most, {before:.0f} before the replay; goal {MAX_MIB:.0f}")
    met = max(of_hours, of_days) <= GOAL_HOURS and mib <= MAX_MIB
    print(f"goal {GOAL_HOURS:.0f} hour of a core: {'met' if met else 'MISSED'}")
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
