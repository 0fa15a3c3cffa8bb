"""The same faults as an agent reads them and as a site's Prometheus keeps them: found, by scenario
and interval, with exact 95 % intervals.

Natively every second with all columns; through the import at 15 and 30 s with dcgm-exporter's
default fields and node_exporter's ports. Each piece (a scenario, a seed, an interval) is a line of
the file of results: a run goes on where the one before ended, takes one seed after the other over
all scenarios, and begins no piece after ``--minutes``. The table counts seeds that have every
interval. ``python -m benchmarks.coarse --minutes 60 --results coarse.jsonl F16 F20``; ``--minutes
0`` prints the table only.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from collector.agent.judge import judge_of, node_horizon_of
from collector.config.settings import Config
from collector.replaying.nodes import rejudge_nodes
from collector.replaying.stored import Span, extent, stored_hours
from evaluation.metrics.intervals import share_interval
from history.backtest.judgeable import judgeable
from history.importing import bring, find
from pipeline.clock import SECOND_NS, SystemClock
from pipeline.finding import Finding
from pipeline.frame import Device
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.query.coverage import coverage
from pipeline.store.query.store import Store
from simulator.fleet import Run, Truth, load_scenario, render
from tests.history.simulated_site import scraped

# Of each, what the default fields can show: XIDs and row remaps, a lost GPU, clock and utilization
# of a job's GPUs, ports that flap, carry half or count errors, power at equal work.
SCENARIOS = ("F02", "F06", "F16", "F20", "F22", "F27", "F30", "H00")
HOURS: Mapping[str, float] = defaultdict(lambda: 3.0, F30=6.0)  # F30: a job of hours
NODES, FIRST_SEED = 4, 4711
STEPS_S = (1.0, 15.0, 30.0)
NATIVE_S = STEPS_S[0]
LATE_S = 3600.0  # beyond a truth's own end, as coarse readings and lost blocks delay


@dataclass(frozen=True, slots=True)
class Piece:
    """What came of a scenario's world (``seed``) read every ``step_s``: faults found, of how many;
    findings of others, as ``detector fault``; CPU seconds.
    """

    scenario: str
    seed: int
    step_s: float
    found: int
    truths: int
    others: tuple[str, ...]
    cpu_s: float


def native(run: Run) -> Iterator[Finding]:
    """What an agent's judge says, fleet wide."""
    judge = judge_of(Config(), SelfMetrics(), SystemClock(), shadow=False)
    for observation in run.observations():
        yield from judge.judge(observation).findings


def coarse(run: Run) -> Iterator[Finding]:
    """What is said of the history that a site kept of it, by detectors that can judge it."""
    site = scraped(run.observations())
    begin = run.topology.begin_ns // 1_000_000
    span = (begin, begin + round(run.seconds * 1000))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        bring(site, find(site, *span, None), root, span)
        begin_end = (datetime.fromtimestamp(us / 1e6, UTC) for us in extent(root, Span()))
        able = judgeable(coverage(Store(root), *begin_end))
        names = [one.name for one in able if one.is_judged]
        for again in rejudge_nodes(
            stored_hours(root, Span()),
            lambda: node_horizon_of(Config(), SelfMetrics(), SystemClock(), names, shadow=False),
        ):
            yield from again.now.findings


def measured(scenario: str, seed: int, step_s: float) -> Piece:
    """A piece: findings above a record by truths, of the same node, while it lasted or soon
    after.
    """
    began = time.process_time()
    run = render(
        load_scenario(scenario), seed, step_s=step_s, days=HOURS[scenario] / 24, nodes=NODES
    )
    findings = native(run) if step_s == NATIVE_S else coarse(run)
    alerts = [one for one in findings if one.severity != "record" and one.phase == "onset"]
    found = sum(any(_about(one, truth) for one in alerts) for truth in run.truth)
    others = (one for one in alerts if not any(_about(one, truth) for truth in run.truth))
    names = tuple(sorted(f"{one.detector} {one.fault}" for one in others))
    cpu_s = round(time.process_time() - began, 1)
    return Piece(scenario, seed, step_s, found, len(run.truth), names, cpu_s)


def _about(finding: Finding, truth: Truth) -> bool:
    hosts = {one.host for one in truth.members}
    if isinstance(truth.entity, Device):
        hosts.add(truth.entity.host)
    where = finding.device.host in hosts or not finding.device.host
    until = truth.end_ns + LATE_S * SECOND_NS
    return where and truth.onset_ns - SECOND_NS <= finding.time_ns <= until


def missing(done: Iterable[Piece], scenarios: Sequence[str]) -> Iterator[tuple[str, int, float]]:
    """Pieces in the order in which they are measured, without end."""
    had = {(one.scenario, one.seed, one.step_s) for one in done}
    for seed in count(FIRST_SEED):
        for scenario in scenarios:
            for step_s in STEPS_S:
                if (scenario, seed, step_s) not in had:
                    yield scenario, seed, step_s


def table(pieces: Iterable[Piece], scenarios: Iterable[str]) -> Iterator[str]:
    """Faults found and findings of others by interval, of seeds that have them all."""
    yield "| scenario | worlds | " + " | ".join(f"{s:g} s" for s in STEPS_S) + " |"
    yield "|---|---" + "|---" * len(STEPS_S) + "|"
    by_world: dict[tuple[str, int], dict[float, Piece]] = defaultdict(dict)
    for one in pieces:
        by_world[one.scenario, one.seed][one.step_s] = one
    for scenario in scenarios:
        worlds = [w for (s, _), w in by_world.items() if s == scenario and len(w) == len(STEPS_S)]
        if worlds:
            cells = (_cell([world[step_s] for world in worlds]) for step_s in STEPS_S)
            yield f"| {scenario} | {len(worlds)} | " + " | ".join(cells) + " |"


def _cell(pieces: Sequence[Piece]) -> str:
    found, truths = sum(one.found for one in pieces), sum(one.truths for one in pieces)
    low, high = share_interval(found, truths)
    others = sum(len(one.others) for one in pieces)
    share = f"{found}/{truths} [{low:.2f}, {high:.2f}]" if truths else "no fault"
    return share + (f", {others} of others" if others else "")


def read(path: Path) -> list[Piece]:
    """Results of earlier runs; a last line that was cut off is taken away."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    pieces = (json.loads(line) for line in whole.splitlines())
    return [Piece(**{**one, "others": tuple(one["others"])}) for one in pieces]


def main() -> None:
    """Measure until the time is over, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="*", default=SCENARIOS)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--results", type=Path, default=Path("coarse.jsonl"))
    args = parser.parse_args()
    until = time.monotonic() + args.minutes * 60
    pieces = read(args.results)
    for question in missing(tuple(pieces), args.scenarios):
        if time.monotonic() >= until:
            break
        pieces.append(measured(*question))
        line = json.dumps(asdict(pieces[-1]))
        with args.results.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        print(line, file=sys.stderr, flush=True)
    print("\n".join(table(pieces, args.scenarios)))


if __name__ == "__main__":
    main()
