"""Incidents of simulated fleets with the truth about them: what labels are drawn from.

Small fleets read every half a minute: a label costs seconds of CPU. Fits see the split ``dev`` of
some scenarios; what they are worth is measured on the split ``test``, whose worlds are drawn from
wider ranges, and on worlds of another author (evaluation/independent), which are named likewise.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from math import isnan, nan
from pathlib import Path
from typing import Any, Literal

from benchmarks.learning.competing import Choice, Decision, decisions
from detectors import DETECTORS
from detectors.incidents import Incidents
from detectors.trust.openings import Opening, opening_of
from evaluation.independent import WORLDS
from evaluation.independent.interface import Event, Tick
from evaluation.independent.run import IndependentRun, run_of
from evaluation.metrics.match import match
from evaluation.metrics.panel import Candidate, Panel, judge
from evaluation.runs.run import periods_of, scaled
from evaluation.runs.truths import plain_truths
from pipeline.finding import Finding, Incident
from simulator.fleet import Run, load_scenario, render

STEP_S = 30.0
# Detectors that see what these scenarios do; the others would double the CPU for no incident more.
USED = (
    "hang", "ib_link", "ib_flap", "frozen", "straggler", "xid", "availability", "throttle",
    "thermal_rack", "waste", "ecc", "starvation",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class World:
    """A rendering: scenario or independent family, split, seed, and its size where it has none."""

    name: str
    split: Literal["dev", "test"]
    seed: int
    nodes: int = 0
    days: float = 0.0
    cases: int = 0
    all_detectors: bool = False

    @property
    def file(self) -> str:
        """Name of the file of its incidents."""
        return f"{self.name}-{self.split}-{self.seed}.json"


@dataclass(frozen=True, slots=True)
class Opened:
    """An incident that opened, and whether something was really wrong with what it named."""

    opening: Opening
    device: str
    real: bool


@dataclass(frozen=True, slots=True)
class Judged:
    """A world: its incidents but records, in the order in which they opened, what competes in them,
    and GPU-months.
    """

    opened: tuple[Opened, ...]
    decisions: tuple[Decision, ...]
    gpu_months: float


def judged(world: World) -> Judged:
    """A world with everything that was reported of it."""
    run = made(world)
    names = tuple(DETECTORS) if world.all_detectors else USED
    candidate = Candidate(
        "ours", "fleet", Panel(lambda: [DETECTORS[name]() for name in names], "fleet", Incidents)
    )
    until_ns = judge(run.observations(), [candidate], periods_of(run))
    truths = plain_truths(run)
    _, stray = match(truths, candidate.alerts, until_ns)
    false = {alert.id for alert in stray}
    months = run.gpu_seconds / (86_400 * 30.4375)
    opened = opened_of(candidate.findings, candidate.incidents, false)
    asked = decisions(candidate.findings, candidate.incidents, truths)
    return Judged(tuple(opened), tuple(asked), months)


def made(world: World) -> Run | IndependentRun:
    """The run of a world. ValueError as from render."""
    if world.name in WORLDS:
        return thinned(run_of(world.name, WORLDS[world.name], world.seed, world.split))
    scenario = load_scenario(world.name)
    swept = scenario.magnitude and world.split == "test"
    return render(
        scaled(scenario, world.nodes or None, world.cases or None),
        world.seed,
        magnitude="range" if swept else None,
        split=world.split,
        step_s=STEP_S,
        days=world.days or None,
        nodes=world.nodes or None,
    )


def thinned(run: IndependentRun) -> IndependentRun:
    """Its readings about each STEP_S only, and what happened in between with the next of them."""
    world, every = run.world, max(1, round(STEP_S / run.step_s))

    def ticks() -> Iterator[Tick]:
        events: list[Event] = []
        for number, tick in enumerate(world.ticks()):
            events.extend(tick.events)
            if number % every == 0:
                yield Tick(tick.at_s, tick.rows, tuple(events))
                events = []

    return replace(run, world=replace(world, period_s=world.period_s * every, ticks=ticks))


def opened_of(
    findings: Iterable[Finding], incidents: Iterable[tuple[int, Incident]], false: set[str]
) -> Iterator[Opened]:
    """Incidents as they were reported first, and whether they are among the false ones."""
    first: dict[str, Finding] = {}
    for finding in findings:
        first.setdefault(finding.id, finding)
    known: set[str] = set()
    for _, incident in incidents:
        if incident.id in known or incident.severity == "record":
            continue
        known.add(incident.id)
        root = incident.root
        device = f"{root.host}/{root.kind}/{root.id}"
        opening = opening_of(incident, first[incident.findings[0]])
        yield Opened(opening, device, incident.id not in false)


def cached(world: World, folder: Path) -> Judged:
    """Of a world, from its file where there is one."""
    path = folder / world.file
    if not path.exists():
        write(path, judged(world))
    document = json.loads(path.read_bytes())
    return Judged(
        tuple(map(_of, document["opened"])),
        tuple(
            Decision(one["of"], tuple(Choice(**choice) for choice in one["choices"]))
            for one in document["decisions"]
        ),
        float(document["gpu_months"]),
    )


def write(path: Path, found: Judged) -> None:
    """A world as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "gpu_months": found.gpu_months,
        "opened": list(map(_row, found.opened)),
        "decisions": list(map(asdict, found.decisions)),
    }
    path.write_text(json.dumps(document, allow_nan=False))


def _row(one: Opened) -> dict[str, Any]:
    opening = asdict(one.opening)
    plain = {k: None if isinstance(v, float) and isnan(v) else v for k, v in opening.items()}
    return {"opening": plain, "device": one.device, "real": one.real}


def _of(row: dict[str, Any]) -> Opened:
    values: dict[str, Any] = {k: nan if v is None else v for k, v in row["opening"].items()}
    return Opened(Opening(**values), row["device"], row["real"])
