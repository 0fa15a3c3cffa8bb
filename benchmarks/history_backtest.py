"""Backtest of a large site: microseconds of CPU per sample of importing and of judging, and memory,
and what the goal's 30 days of 64 nodes would take on one core.

A simulated healthy fleet of 64 nodes with 8 GPUs each as its Prometheus has it: dcgm-exporter's
default fields every 15 s; so many minutes of it (``python -m benchmarks.history_backtest 20``). The
site is in memory, so that its own server is not measured.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from collector.agent.judge import node_horizon_of
from collector.config.settings import Config
from collector.replaying.nodes import rejudge_nodes
from collector.replaying.stored import Span, extent, stored_hours
from history.backtest.judgeable import judgeable
from history.backtest.pieces import IMPORTED_AT_ONCE
from history.importing import bring, find
from history.meaning import dcgm_exporter
from pipeline.clock import SystemClock
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.query.coverage import coverage
from pipeline.store.query.store import Store
from simulator.fleet import load_scenario, render
from tests.history.simulated_site import Scraper, SimulatedSite

NODES, STEP_S, SEED = 64, 15.0, 7
GOAL_SAMPLES, GOAL_MINUTES, MAX_MIB = 2.2e9, 60.0, 1024


def site_of(minutes: float) -> tuple[SimulatedSite, tuple[int, int]]:
    """The site, and the span of its samples in unix milliseconds."""
    run = render(load_scenario("H00"), SEED, step_s=STEP_S, days=minutes / 1440, nodes=NODES)
    scraper = Scraper(frozenset(dcgm_exporter.columns()))
    for observation in run.observations():
        scraper.take(observation)
    begin = run.topology.begin_ns // 1_000_000
    return scraper.site(), (begin, begin + round(run.seconds * 1000))


def main(minutes: float) -> int:
    """Print what it took; 1 where the goal is missed."""
    site, span = site_of(minutes)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        began = time.process_time()
        samples = bring(site, find(site, *span, None), root, span).account.samples
        imported = time.process_time()
        begin_end = (datetime.fromtimestamp(us / 1e6, UTC) for us in extent(root, Span()))
        able = judgeable(coverage(Store(root), *begin_end))
        names = [one.name for one in able if one.is_judged]
        for _ in rejudge_nodes(
            stored_hours(root, Span()),
            lambda: node_horizon_of(Config(), SelfMetrics(), SystemClock(), names, shadow=False),
            IMPORTED_AT_ONCE,
        ):
            pass
        judged = time.process_time()
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    each = [(b - a) / samples * 1e6 for a, b in ((began, imported), (imported, judged))]
    whole = sum(each) * GOAL_SAMPLES / 60e6
    print(f"{samples:,} samples; judged by {', '.join(names)}")
    print(f"{each[0]:.2f} us of CPU per sample to import, {each[1]:.2f} to judge")
    print(f"{mib:.0f} MiB at most, of which {before:.0f} are the simulated site")
    print(f"2.2 billion samples: {whole:.0f} minutes, goal {GOAL_MINUTES:.0f}")
    return int(whole > GOAL_MINUTES or mib > MAX_MIB)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 20.0))
