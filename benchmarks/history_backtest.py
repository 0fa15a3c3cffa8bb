"""Backtest of a large site: microseconds of CPU per sample of reading, importing and judging, and
memory, and what the goal's 30 days of 64 nodes would take on one core.

A simulated healthy fleet of 64 nodes with 8 GPUs each as its Prometheus has it: dcgm-exporter's
default fields every 15 s; so many minutes of it (``python -m benchmarks.history_backtest 60``; an
hour's files cost as much for 20 minutes). The site is in memory; what it costs to decode what a
Prometheus streams is measured apart, of some metrics that were encoded before. What is done once
whatever the length, loading modules and looking at what the history has, is shown and not counted
for each sample.
"""

from __future__ import annotations

import io
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from collector.agent.judge import node_horizon_of
from collector.config.settings import Config
from collector.replaying.nodes import JudgedRound, rejudge_hours
from collector.replaying.stored import Span, extent, stored_hours
from history.backtest.judgeable import judgeable
from history.backtest.pieces import IMPORTED_AT_ONCE
from history.importing import bring, find
from history.meaning import dcgm_exporter
from history.site import streamed
from history.site.series import Series
from pipeline.clock import SystemClock
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.query.coverage import coverage
from pipeline.store.query.store import Store
from simulator.fleet import load_scenario, render
from tests.history.simulated_site import Scraper, SimulatedSite
from tests.history.test_streamed import frame, response, xor_chunk

NODES, STEP_S, SEED = 64, 15.0, 7
GOAL_SAMPLES, GOAL_MINUTES, MAX_MIB = 2.2e9, 60.0, 1024
STREAMED = ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_FB_FREE")
CHUNK, SERIES_AT_ONCE = 120, 64  # samples of a chunk, as Prometheus'; series of a frame

T = TypeVar("T")


def site_of(minutes: float, nodes: int = NODES) -> tuple[SimulatedSite, tuple[int, int]]:
    """The site, and the span of its samples in unix milliseconds."""
    run = render(load_scenario("H00"), SEED, step_s=STEP_S, days=minutes / 1440, nodes=nodes)
    scraper = Scraper(frozenset(dcgm_exporter.columns()))
    for observation in run.observations():
        scraper.take(observation)
    begin = run.topology.begin_ns // 1_000_000
    return scraper.site(), (begin, begin + round(run.seconds * 1000))


class Streaming:
    """Answers with frames that were encoded before, as ``history.site.http.Http``."""

    url = "http://site"

    def __init__(self, body: bytes) -> None:
        self._body, self.only = body, dict[str, str]()

    @contextmanager
    def stream(self, *_: object) -> Iterator[Any]:
        """The answer."""
        answer: Any = io.BytesIO(self._body)
        answer.kind = streamed.KIND
        yield answer


def frames_of(site: SimulatedSite, name: str, span: tuple[int, int]) -> bytes:
    """A metric as Prometheus streams it."""
    series = []
    for one in site.read(name, *span):
        samples = list(zip(one.times_ms.tolist(), one.values.tolist(), strict=True))
        parts = [samples[at : at + CHUNK] for at in range(0, len(samples), CHUNK)]
        series.append((dict(one.labels), [xor_chunk(part) for part in parts]))
    cut: list[Sequence[tuple[dict[str, str], list[bytes]]]] = [
        series[at : at + SERIES_AT_ONCE] for at in range(0, len(series), SERIES_AT_ONCE)
    ]
    return b"".join(frame(response(*part)) for part in cut)


def decoding_us(site: SimulatedSite, span: tuple[int, int]) -> float:
    """CPU per sample of decoding an answer."""
    samples, spent = 0, 0.0
    for name in STREAMED:
        answering: Any = Streaming(frames_of(site, name, span))
        found, s = timed(partial(_answered, answering, span))
        samples, spent = samples + sum(len(one.times_ms) for one in found), spent + s
    return spent / samples * 1e6


def _answered(answering: Any, span: tuple[int, int]) -> list[Series]:
    return list(streamed.read(answering, "", *span))


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What it gives, and CPU seconds."""
    began = time.process_time()
    return work(), time.process_time() - began


def once(site: SimulatedSite, span: tuple[int, int]) -> tuple[int, tuple[float, float, float]]:
    """Samples, and CPU seconds to import them, to look at what there is, and to judge."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        done, imported = timed(lambda: bring(site, find(site, *span, None), root, span))
        begin, end = (datetime.fromtimestamp(us / 1e6, UTC) for us in extent(root, Span()))
        able, looked = timed(lambda: judgeable(coverage(Store(root), begin, end)))
        names = [one.name for one in able if one.is_judged]
        again = rejudge_hours(
            stored_hours(root, Span()),
            lambda: node_horizon_of(Config(), SelfMetrics(), SystemClock(), names, shadow=False),
            IMPORTED_AT_ONCE,
        )
        _, judged = timed(
            lambda: sum(isinstance(one, JudgedRound) for _, every in again for one in every)
        )
        return done.account.samples, (imported, looked, judged)


def main(minutes: float) -> int:
    """Print what it took; 1 where the goal is missed."""
    once(*site_of(2.0, 2))  # modules are loaded
    site, span = site_of(minutes)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    samples, (imported, looked, judged) = once(site, span)
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    each = decoding_us(site, span), imported / samples * 1e6, judged / samples * 1e6
    whole = sum(each) * GOAL_SAMPLES / 60e6
    print(f"{samples:,} samples; once {looked:.1f} s to look at what the history has")
    words = ("to decode", "to import", "to judge")
    shares = (f"{us:.2f} {what}" for us, what in zip(each, words, strict=True))
    print(f"us of CPU per sample: {', '.join(shares)}")
    print(f"{mib:.0f} MiB at most, of which {before:.0f} are the simulated site")
    print(f"2.2 billion samples: {whole:.0f} minutes, goal {GOAL_MINUTES:.0f}")
    return int(whole > GOAL_MINUTES or mib > MAX_MIB)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0))
