"""The same faults as an agent reads them and as a site's Prometheus keeps them: found, by scenario
and interval.

Natively at 10 s with all columns, the step of the scored suite; through the import at 15, 30 and
60 s with dcgm-exporter's default fields and node_exporter's ports. ``python -m benchmarks.coarse
F16 F20`` takes some scenarios only.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from collector.agent.judge import judge_of, node_horizon_of
from collector.config.settings import Config
from collector.replaying.nodes import rejudge_nodes
from collector.replaying.stored import Span, extent, stored_hours
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

SCENARIOS = ("F06", "F16", "F20", "F27", "F30", "H00")
DAYS, NODES, SEED = 0.5, 8, 4711
NATIVE_S, COARSE_S = 10.0, (15.0, 30.0, 60.0)
LATE_S = 3600.0  # beyond a truth's own end, as coarse readings and lost blocks delay


@dataclass(frozen=True, slots=True)
class Outcome:
    """Truths that were found, of how many, and findings of others."""

    found: int
    truths: int
    others: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.found}/{self.truths}" + (f" +{len(self.others)}" if self.others else "")


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
        from datetime import UTC, datetime  # noqa: PLC0415

        begin_end = (datetime.fromtimestamp(us / 1e6, UTC) for us in extent(root, Span()))
        able = judgeable(coverage(Store(root), *begin_end))
        names = [one.name for one in able if one.is_judged]
        for again in rejudge_nodes(
            stored_hours(root, Span()),
            lambda: node_horizon_of(Config(), SelfMetrics(), SystemClock(), names, shadow=False),
        ):
            yield from again.now.findings


def outcome(run: Run, findings: Iterable[Finding]) -> Outcome:
    """Findings above a record, by truths: of the same node, while it lasted or soon after."""
    alerts = [one for one in findings if one.severity != "record" and one.phase == "onset"]
    found = sum(any(_about(one, truth) for one in alerts) for truth in run.truth)
    others = (one for one in alerts if not any(_about(one, truth) for truth in run.truth))
    return Outcome(found, len(run.truth), tuple(f"{o.detector} {o.fault}" for o in others))


def _about(finding: Finding, truth: Truth) -> bool:
    hosts = {one.host for one in truth.members}
    if isinstance(truth.entity, Device):
        hosts.add(truth.entity.host)
    where = finding.device.host in hosts or not finding.device.host
    until = truth.end_ns + LATE_S * SECOND_NS
    return where and truth.onset_ns - SECOND_NS <= finding.time_ns <= until


def row(scenario: str) -> Iterator[str]:
    """Cells of a scenario."""
    yield scenario
    for step_s in (NATIVE_S, *COARSE_S):
        run = render(load_scenario(scenario), SEED, step_s=step_s, days=DAYS, nodes=NODES)
        made = outcome(run, native(run) if step_s == NATIVE_S else coarse(run))
        print(scenario, step_s, made, sorted(set(made.others)), file=sys.stderr, flush=True)
        yield str(made)


def main(argv: Sequence[str]) -> None:
    """Print the table."""
    print("| scenario | native | " + " | ".join(f"{s:g} s" for s in COARSE_S) + " |")
    print("|---|---" + "|---" * len(COARSE_S) + "|")
    for scenario in argv or SCENARIOS:
        print("| " + " | ".join(row(scenario)) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
