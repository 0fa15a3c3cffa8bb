"""The same hours as agents read them and as a site's Prometheus keeps them: which faults are
found at 1 s and, of the same cases, at 15 and 30 s, with exact 95 % intervals.

A world is rendered once, every second, and judged as a gateway judges it. A scraper takes each 15th
and 30th reading with dcgm-exporter's default fields and node_exporter's ports, which go through the
import into a store that is judged as a backtest judges it, node by node. Only the detectors of the
class judge, of what their source reads, and jobs are small, so that a case costs a second or two.
Found: the class is said of the right device, as urgent as it is, at the latest an hour after its
deadline. Which alerts are about no fault, the score's own rule says (evaluation/metrics/match.py).

Each world is a line of the file of results: a run goes on where the one before ended, takes one
seed after the other over all rows, and begins no world after ``--minutes`` of CPU. ``python -m
benchmarks.coarse --minutes 60 --results coarse.jsonl F16 F20``; ``--minutes 0`` prints the table
only.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from collector.agent.judge import judge_of, node_horizon_of
from collector.config.settings import Config
from collector.replaying.nodes import rejudge_nodes
from collector.replaying.stored import Span, extent, stored_hours
from evaluation.metrics.alerts import RANK, alerts_of
from evaluation.metrics.classes import class_of
from evaluation.metrics.intervals import share_interval
from evaluation.metrics.match import match
from evaluation.metrics.truth import Truth, entity_of
from evaluation.runs.truths import plain_truths
from history.backtest.judgeable import judgeable
from history.importing import bring, find
from pipeline.clock import SECOND_NS, SystemClock
from pipeline.finding import Finding
from pipeline.frame import Device
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics
from pipeline.store.query.coverage import coverage
from pipeline.store.query.store import Store
from simulator.fleet import Run, load_scenario, render
from tests.history.simulated_site import Scraper

NATIVE_S, STEPS_S = 1.0, (15.0, 30.0)
FIRST_SEED = 4711
GPUS, PORTS = "nvml", "infiniband"  # sources
LATE_S = 3600.0  # beyond a fault's deadline, as coarse readings and blocks delay


@dataclass(frozen=True, slots=True)
class Row:
    """A class: the scenario that shows it, in words, the detectors that are to find it, and a
    world that holds many cases in few hours. ``is_part``: a backtest says that its detectors do not
    judge this part of their faults at coarse cadence.
    """

    scenario: str
    words: str
    detectors: tuple[str, ...]
    source: str
    hours: float
    cases: int
    nodes: int = 48
    job_gpus: float = 8.0  # a fault leaves its job alone: small jobs hold more cases
    magnitude: str | float = "range"
    is_part: bool = False


# What default fields can show: clock, utilization, power and energy, temperature, XIDs, remapped
# rows, whether a GPU is listed, and counters and states of ports.
ROWS = {
    row.scenario: row
    for row in (
        Row("F06", "a GPU off the bus", ("xid", "availability"), GPUS, 3.0, 44),
        Row("F16", "a slow GPU", ("straggler",), GPUS, 3.0, 24, job_gpus=16.0),
        Row("F20", "a flapping link", ("ib_flap", "ib_link"), PORTS, 4.0, 44, magnitude=48.0),
        Row("F22", "a counter at its end", ("ib_saturation",), PORTS, 3.0, 44),
        Row("F27", "a rail at half its rate", ("ib_rail",), PORTS, 3.0, 24, job_gpus=16.0),
        Row("F28", "an adapter whose firmware stops", ("ib_link",), PORTS, 3.0, 44),
        Row(
            "F03",
            "a memory error, not contained",
            ("ecc", "xid"),
            GPUS,
            3.0,
            44,
            is_part=True,
        ),
        Row("F07", "a GSP that does not answer", ("xid", "availability"), GPUS, 3.0, 44),
        Row("F09", "XIDs within seconds", ("xid",), GPUS, 3.0, 44, is_part=True),
        Row("F30", "less power at equal work", ("power",), GPUS, 5.0, 24, job_gpus=16.0),
        Row("F02", "contained errors of memory", ("ecc", "xid"), GPUS, 3.5, 44, magnitude=0.25),
        Row("F19", "bit errors of a link", ("ib_ber",), PORTS, 6.0, 44, magnitude=2.0),
    )
}
# Classes that an XID names as well.
XID_OF = {"xid/memory": "ecc"}
# Nothing is wrong: all of these detectors judge everything.
HEALTHY = "H00"
EVERY = tuple(dict.fromkeys(name for row in ROWS.values() for name in row.detectors))
ROWS[HEALTHY] = Row(HEALTHY, "nothing", EVERY, "", 3.0, 0)


@dataclass(frozen=True, slots=True)
class World:
    """What came of a world. By interval (seconds, as text): cases found, in their order, and the
    alerts about no fault, as ``detector fault``. ``lacks``: what detectors did not judge, and why.
    """

    scenario: str
    seed: int
    cases: tuple[str, ...]
    found: Mapping[str, Sequence[bool]]
    others: Mapping[str, Sequence[str]]
    delays_s: Mapping[str, Sequence[float]]
    lacks: Mapping[str, Sequence[str]]
    cpu_s: float


@dataclass
class Scrapes:
    """A scraper that takes each so many-th reading of a source, and all events."""

    every: int
    scraper: Scraper = field(default_factory=Scraper)
    _read: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def take(self, observation: Observation) -> None:
        """One observation of all nodes."""
        frames = observation.frames
        if frames:
            self._read[observation.source] += 1
            if self._read[observation.source] % self.every:
                frames = ()
        if frames or observation.events:
            self.scraper.take(replace(observation, frames=frames))


@dataclass
class Heard:
    """What a judge said, as scoring takes it."""

    findings: list[Finding] = field(default_factory=list)

    def take(self, judged: JudgedObservation) -> None:
        """What it said of one observation."""
        self.findings += judged.findings


def measured(row: Row, seed: int) -> World:
    """One world at all intervals."""
    began = time.process_time()
    scenario = load_scenario(row.scenario)
    small = replace(scenario.world, job_gpus=row.job_gpus, job_gpus_sigma=0.01)
    scenario = replace(scenario, cases=row.cases, world=small)
    run = render(
        scenario,
        seed,
        magnitude=row.magnitude if scenario.magnitude else None,
        step_s=NATIVE_S,
        days=row.hours / 24,
        nodes=row.nodes,
    )
    scrapes = {step_s: Scrapes(round(step_s / NATIVE_S)) for step_s in STEPS_S}
    heard = {NATIVE_S: native(run, row, scrapes.values())}
    lacks: dict[str, Sequence[str]] = {}
    for step_s, taken in scrapes.items():
        heard[step_s], lacks[f"{step_s:g}"] = imported(run, taken.scraper, row.detectors)
    until_ns = run.topology.begin_ns + round(run.seconds * SECOND_NS)
    every = plain_truths(run)
    truths = [one for one in every if one.severity != "record"]
    found: dict[str, Sequence[bool]] = {}
    delays: dict[str, Sequence[float]] = {}
    others: dict[str, Sequence[str]] = {}
    for step_s, one in heard.items():
        name = f"{step_s:g}"
        after_s = [_after_s(truth, one.findings) for truth in truths]
        found[name] = [after_s is not None for after_s in after_s]
        delays[name] = [-1.0 if one is None else round(one, 1) for one in after_s]
        _, stray = match(every, alerts_of(one.findings), until_ns)
        others[name] = sorted(
            f"{alert.detector} {alert.statements[-1].fault}"
            for alert in stray
            if alert.severity != "record"
        )
    cpu_s = round(time.process_time() - began, 1)
    names = tuple(truth.id for truth in truths)
    return World(row.scenario, seed, names, found, others, delays, lacks, cpu_s)


def _after_s(truth: Truth, findings: Iterable[Finding]) -> float | None:
    """Seconds from a fault's onset until it was said of its device, as urgent as it is; None where
    it was not, an hour after its deadline.
    """
    until_ns = truth.deadline_ns + LATE_S * SECOND_NS
    times = [
        one.time_ns
        for one in findings
        if one.phase != "cleared"
        and RANK[one.severity] >= RANK[truth.severity]
        and truth.onset_ns - SECOND_NS <= one.time_ns <= until_ns
        and entity_of(one.device) in truth.exact
        and truth.fault in (class_of(one.fault), XID_OF.get(one.fault))
    ]
    return (min(times) - truth.onset_ns) / SECOND_NS if times else None


def native(run: Run, row: Row, scrapes: Iterable[Scrapes]) -> Heard:
    """What the gateway of its agents says; ``scrapes`` take the same readings."""
    judge = judge_of(Config(), SelfMetrics(), SystemClock(), row.detectors, shadow=False)
    heard = Heard()
    for observation in run.observations():
        if row.source and observation.source in (GPUS, PORTS) and observation.source != row.source:
            continue
        if observation.frames or observation.events:
            for one in scrapes:
                one.take(observation)
            heard.take(judge.judge(observation))
    return heard


def imported(run: Run, scraper: Scraper, names: Collection[str]) -> tuple[Heard, list[str]]:
    """What is said of the history that a site kept of it, by those detectors that can judge it;
    what the others lack.
    """
    site = scraper.site()
    begin = run.topology.begin_ns // 1_000_000
    span = (begin, begin + round(run.seconds * 1000) + 1)
    heard = Heard()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        bring(site, find(site, *span, None), root, span)
        begin_end = (datetime.fromtimestamp(us / 1e6, UTC) for us in extent(root, Span()))
        every = [one for one in judgeable(coverage(Store(root), *begin_end)) if one.name in names]
        able = [one.name for one in every if one.is_judged]
        for again in rejudge_nodes(
            stored_hours(root, Span()),
            lambda: node_horizon_of(Config(), SelfMetrics(), SystemClock(), able, shadow=False),
        ):
            heard.take(again.now)
    both_ends = (*run.topology.ports, *run.topology.switch_ports)
    ports = {_as_imported(port): port for port in both_ends}
    heard.findings = [
        replace(one, device=ports.get(one.device.id, one.device)) for one in heard.findings
    ]
    lacks = [f"{one.name}: {one.words}" for one in every if not one.is_judged or one.unseen]
    return heard, lacks


def _as_imported(port: Device) -> str:
    """The id of a port whose exporter gives no GUID."""
    return f"{port.host}/{port.attributes['device']}/{port.attributes.get('port', '1')}"


def missing(done: Iterable[World], rows: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Worlds in the order in which they are measured, without end."""
    had = {(one.scenario, one.seed) for one in done}
    for seed in count(FIRST_SEED):
        for name in rows:
            if (name, seed) not in had:
                yield name, seed


def table(worlds: Sequence[World], rows: Iterable[str]) -> Iterator[str]:
    """Cases found and alerts about no fault, by interval; of those found natively how many are
    lost.
    """
    steps = [f"{s:g}" for s in (NATIVE_S, *STEPS_S)]
    yield "| Fault | Worlds | Cases | " + " | ".join(f"{s} s" for s in steps) + " |"
    yield "|---" * (3 + len(steps)) + "|"
    for name in rows:
        own = [one for one in worlds if one.scenario == name]
        if own:
            cases = sum(len(one.cases) for one in own)
            row = ROWS[name]
            cells = [_cell(own, step) for step in steps]
            if row.is_part:
                cells[1:] = [f"not judged; {cell}" for cell in cells[1:]]
            yield f"| {row.words} ({name}) | {len(own)} | {cases} | " + " | ".join(cells) + " |"


def _cell(worlds: Sequence[World], step: str) -> str:
    cases = sum(len(one.cases) for one in worlds)
    others = sum(len(one.others[step]) for one in worlds)
    text = []
    if cases:
        found = sum(sum(one.found[step]) for one in worlds)
        low, high = share_interval(found, cases)
        text.append(f"{found} [{low:.2f}, {high:.2f}]")
        if step != f"{NATIVE_S:g}":
            text.append(_paired(worlds, step))
    if others or not cases:
        text.append(f"{others} false")
    return ", ".join(text)


def _paired(worlds: Iterable[World], step: str) -> str:
    pairs = [
        (here, there)
        for one in worlds
        for here, there in zip(one.found[f"{NATIVE_S:g}"], one.found[step], strict=True)
    ]
    lost, gained = sum(a and not b for a, b in pairs), sum(b and not a for a, b in pairs)
    high = share_interval(lost, len(pairs))[1]
    return f"lost {lost} (at most {high:.3f}), gained {gained}"


def read(path: Path) -> list[World]:
    """Results of earlier runs; a last line that was cut off is taken away."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    found = (json.loads(line) for line in whole.splitlines())
    return [World(**{**one, "cases": tuple(one["cases"])}) for one in found]


def main() -> None:
    """Measure until the CPU time is spent, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="*", default=tuple(ROWS))
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--results", type=Path, default=Path("coarse.jsonl"))
    args = parser.parse_args()
    worlds = read(args.results)
    for name, seed in missing(tuple(worlds), args.scenarios):
        if time.process_time() >= args.minutes * 60:
            break
        worlds.append(measured(ROWS[name], seed))
        line = json.dumps(asdict(worlds[-1]))
        with args.results.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        print(line, file=sys.stderr, flush=True)
    print("\n".join(table(worlds, args.scenarios)))


if __name__ == "__main__":
    main()
