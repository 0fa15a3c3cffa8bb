"""A month of a fleet judged again by ``tocsin replay``: CPU per reading of a node of all its
sources, memory, what 30 days take of one core, and whether nodes whose agents really ran say in
the replay what they said then.

A simulated fleet with all its sources, written day by day and sealed as its agents do: 200 nodes
each 60 s by default, so many hours of them. ``--hours 720 --live 3 --writers 2`` is the month, with
three agents beside it, written by two processes; ``--step 1 --hours 0.25`` is a part of a day at
1 Hz, for memory; ``--scenario F31`` has faults.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path

import pyarrow as pa

from collector.cli import main as tocsin
from collector.replaying.passes import hours_in
from collector.replaying.stored import Span
from collector.replaying.width import nodes_at_once
from detectors.paging import judge_in_service
from evaluation.metrics.scope import ByHost
from evaluation.runs.run import periods_of
from pipeline.clock import SystemClock
from pipeline.finding import Finding, Incident
from pipeline.judge import Judge
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.files.wal import Wal, segments
from pipeline.store.keep.compact import compact
from pipeline.store.keep.seal import seal
from simulator.fleet import Run, load_scenario, render
from tests.fakes import FakeClock
from tests.pipeline.store.days import later

SEED = 7
DAYS, DAY_S = 30.0, 86_400
MONTH_HOURS = DAYS * 24
GOAL_HOURS, MAX_MIB = 1.0, 2048.0

World = Callable[[], Run]


def observations(run: Run, hosts: Collection[str]) -> Iterator[Observation]:
    """As the agents of these hosts have read them."""
    cut, count = ByHost(), dict[str, int]()
    for whole in run.observations():
        for host, part in cut.split(whole):
            if host not in hosts:
                continue
            count[host] = count.get(host, 0) + 1
            frames = tuple(replace(frame, increments=None) for frame in part.frames)
            yield replace(part, boot_id=f"boot of {host}", seq=count[host], frames=frames)


class Agents:
    """Agents of some hosts that write a store; those of ``live`` judge what they read."""

    def __init__(self, root: Path, run: Run, hosts: Collection[str], live: Collection[str]) -> None:
        self._root, self._run, self._hosts = root, run, frozenset(hosts)
        self._logs: dict[str, Wal] = {}
        self._day = 0
        self._judges: dict[str, Judge] = {
            host: judge_in_service(SelfMetrics(), SystemClock(), periods_of(run))
            for host in self._hosts.intersection(live)
        }
        self.found = 0

    def write(self) -> None:
        """Into the store, a day at a time: of those that are over all files are sealed and
        compacted.
        """
        for one in observations(self._run, self._hosts):
            day = one.time_ns // (DAY_S * 10**9)
            if self._day and day != self._day:
                self.seal()
                compact(later(self._root))
            self._day = day
            self._log(one.host).write(*self._judged(one))
        self.seal()

    def seal(self) -> None:
        """What was written."""
        for host, log in self._logs.items():
            log.close()
            for segment in segments(self._root.parent / "logs" / host):
                seal(segment, self._root, "c1")
        self._logs.clear()

    def _log(self, host: str) -> Wal:
        if host not in self._logs:
            folder = self._root.parent / "logs" / host
            self._logs[host] = Wal(
                folder, FakeClock(), SelfMetrics(), fsync_s=1e9, max_bytes=1 << 40
            )
        return self._logs[host]

    def _judged(
        self, one: Observation
    ) -> tuple[Observation, tuple[Finding, ...], tuple[Incident, ...]]:
        if one.host not in self._judges:
            return one, (), ()
        judged = self._judges[one.host].judge(one)
        self.found += len(judged.findings)
        return one, judged.findings, judged.incidents


def write(root: Path, world: World, live: int = 0, writers: int = 1) -> tuple[list[str], int]:
    """The store of a fleet, in so many processes; the hosts that judged, and their findings."""
    hosts = list(world().topology.hosts)
    root.mkdir(parents=True)
    with ProcessPoolExecutor(writers) as pool:
        parts = [
            pool.submit(_write_some, root.parent / f"{k}", world, hosts[k::writers], hosts[:live])
            for k in range(writers)
        ]
        found = sum(part.result() for part in parts)
    for k in range(writers):
        _join(root.parent / f"{k}" / "store", root)
    return hosts[:live], found


def _write_some(folder: Path, world: World, hosts: list[str], live: list[str]) -> int:
    pa.set_cpu_count(1)
    agents = Agents(folder / "store", world(), hosts, live)
    agents.write()
    return agents.found


def _join(part: Path, root: Path) -> None:
    """Each file names its node, so that no two parts have one of the same name."""
    for path in part.rglob("*.parquet"):
        target = root / path.relative_to(part)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)


def replayed(root: Path, *options: str) -> tuple[float, str, str]:
    """CPU seconds of a replay, what it prints, and what it says at its end, which is a count of
    observations.
    """
    printed, said = StringIO(), StringIO()
    began = time.process_time()
    with redirect_stdout(printed), redirect_stderr(said):
        tocsin(["replay", "--from", str(root), *options])
    last = said.getvalue().splitlines()[-1]
    assert "observations" in last, last
    return time.process_time() - began, printed.getvalue(), last


def compared(root: Path, live: Collection[str], found: int) -> bool:
    """Whether the nodes that were judged live say the same again; printed."""
    _, printed, _ = replayed(root, "--compare", *(f"--host={host}" for host in live))
    others = sum(json.loads(line)["host"] in live for line in printed.splitlines())
    print(f"{len(live)} agents ran: {found} findings, {others} observations differ")
    return not others


def measure(root: Path, nodes: int, step_s: float, hours: float, words: str) -> float:
    """Hours of a core that a month takes; printed."""
    spent, _, said = replayed(root)
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
    parser.add_argument("--scenario", default="H00")
    parser.add_argument("--live", type=int, default=0, help="nodes whose agents judge beside it")
    parser.add_argument("--writers", type=int, default=1, help="processes that write the store")
    args = parser.parse_args()
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as folder:
        warm, root = Path(folder) / "warm" / "store", Path(folder) / "fleet" / "store"
        world = partial(render, load_scenario(args.scenario), SEED, step_s=args.step)
        write(warm, partial(world, days=10 * args.step / DAY_S, nodes=2))
        replayed(warm)  # modules are loaded
        began = time.monotonic()
        fleet = partial(world, days=args.hours / 24, nodes=args.nodes)
        live, found = write(root, fleet, args.live, args.writers)
        print(f"written in {time.monotonic() - began:,.0f} s by {args.writers} processes")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        at_once = nodes_at_once(root, hours_in(root, Span()))
        print(f"{args.nodes} nodes each {args.step:g} s, {at_once} at once, {args.hours:g} hours")
        months = []
        if args.hours < MONTH_HOURS:
            months.append(measure(root, args.nodes, args.step, args.hours, "as sealed"))
        compact(later(root))
        months.append(measure(root, args.nodes, args.step, args.hours, "compacted"))
        same = compared(root, live, found) if args.live else True
        mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{mib:.0f} MiB at most, {before:.0f} before the replay; goal {MAX_MIB:.0f}")
    met = max(months) <= GOAL_HOURS and mib <= MAX_MIB
    print(f"goal {GOAL_HOURS:.0f} hour of a core: {'met' if met else 'MISSED'}")
    return int(not (met and same))


if __name__ == "__main__":
    sys.exit(main())
