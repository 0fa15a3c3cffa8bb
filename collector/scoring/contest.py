"""One run of one scenario: everybody sees the same frames, and what each said is judged."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from typing import Any, Literal

from collector.scoring.truths import plain_truths
from collector.simulator.fleet import Run, load_scenario, render
from detectors import all_detectors
from detectors.baselines import BASELINES
from detectors.incidents import Incidents
from detectors.scoring.false_alarms import FalseAlarm, false_alarms
from detectors.scoring.match import Case, Evidence, match
from detectors.scoring.panel import Contestant, Panel, judge
from detectors.scoring.scope import Scope
from detectors.scoring.truth import Truth
from pipeline.finding import Finding
from pipeline.interfaces import Detector, Fusion
from pipeline.observation import Observation

OURS = "ours"
Split = Literal["dev", "test"]
STEP_S = 10.0
HOST_PERIOD_S = 60.0  # slow facts are read once a minute, everything else at each step


@dataclass(frozen=True, slots=True)
class Job:
    """One rendering to judge: scenario, magnitude (nominal, half, range or a number), seed and split, and who takes part.

    ``contestants`` are (name, scope): ``ours`` or a baseline. With ``restart`` ours are restarted half-way, beside going on.
    """

    scenario: str
    magnitude: str
    seed: int
    split: Split
    contestants: tuple[tuple[str, Scope], ...]
    restart: bool = False
    days: float | None = None
    nodes: int | None = None

    @property
    def name(self) -> str:
        """Stem of the result's file."""
        return f"{self.scenario}-{self.magnitude}-{self.split}-{self.seed}"

    @classmethod
    def from_json(cls, text: str) -> Job:
        """What ``json.dumps(asdict(job))`` wrote."""
        values = json.loads(text)
        return cls(**values | {"contestants": tuple((name, scope) for name, scope in values["contestants"])})


def make_of(name: str) -> Callable[[], Sequence[Detector]]:
    """What a contestant is made of. KeyError for an unknown baseline."""
    if name == OURS:
        return all_detectors
    baseline = BASELINES[name]
    return lambda: [baseline()]


def fusion_of(name: str) -> Callable[[], Fusion] | None:
    """What joins a contestant's findings: people get ours as incidents, those of a baseline as they are."""
    return Incidents if name == OURS else None


def rendered(job: Job) -> Run:
    """The run of a job. ValueError for an unknown scenario or magnitude."""
    magnitude: str | float = job.magnitude
    with contextlib.suppress(ValueError):
        magnitude = float(job.magnitude)
    return render(
        load_scenario(job.scenario), job.seed, magnitude=magnitude, split=job.split, step_s=STEP_S, days=job.days, nodes=job.nodes
    )


def contest(
    job: Job,
    watch: Callable[[Observation], None] | None = None,
    said: Callable[[str, Sequence[Finding]], None] | None = None,
) -> dict[str, Any]:
    """Render, ask, judge; the result as JSON. ``watch`` sees every observation as it passes, ``said`` what each contestant found."""
    run = rendered(job)
    truths = plain_truths(run)
    contestants = [
        Contestant(name, scope, Panel(make_of(name), scope, fusion_of(name)), restarts=name == OURS)
        for name, scope in job.contestants
    ]
    restart_at_ns = run.topology.begin_ns + round(run.seconds / 2 * 1e9) if job.restart else None
    periods = dict.fromkeys(("nvml", "infiniband", "kmsg", "jobs"), STEP_S) | {"host": HOST_PERIOD_S}
    until_ns = judge(_watched(run, watch), contestants, periods, restart_at_ns=restart_at_ns)
    if said is not None:
        for contestant in contestants:
            said(f"{contestant.name}-{contestant.scope}", contestant.findings)
    return {
        "job": asdict(job),
        "kind": run.scenario.kind,
        "needs": run.scenario.scope,
        "gpu_s": run.gpu_seconds,
        "port_s": run.port_seconds,
        "skipped": run.skipped,
        "truth": [truth.line() for truth in run.truth],
        "results": [_result(contestant, truths, until_ns) for contestant in contestants],
    }


def _watched(run: Run, watch: Callable[[Observation], None] | None) -> Iterable[Observation]:
    for observation in run.observations():
        if watch is not None:
            watch(observation)
        yield observation


def _result(contestant: Contestant, truths: Sequence[Truth], until_ns: int) -> dict[str, Any]:
    cases, stray = match(truths, contestant.alerts, until_ns)
    return {
        "contestant": contestant.name,
        "scope": contestant.scope,
        "cases": [_finite(asdict(case)) for case in cases],
        "false": [_finite(asdict(alarm)) for alarm in false_alarms(stray)],
        "findings": len(contestant.findings),
        "incidents": len({incident.id for _, incident in contestant.incidents}),
        "restarted": contestant.twin is not None,
        "differences": contestant.differences[:100],
        "forgetful": list(contestant.panel.forgetful()) if contestant.twin is not None else [],
    }


def case_from(document: Mapping[str, Any]) -> Case:
    """A case as it was before it was written."""
    evidence = tuple(Evidence(**_infinite(e)) for e in document["evidence"])
    return Case(**{**document, "evidence": evidence})


def alarm_from(document: Mapping[str, Any]) -> FalseAlarm:
    """A false alarm as it was before it was written."""
    return FalseAlarm(**_infinite(document))


def _finite(value: Any) -> Any:
    """JSON has no infinity: written as text."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return {inf: "inf", -inf: "-inf"}.get(value, value) if isinstance(value, float) else value


def _infinite(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key: float(value) if value in ("inf", "-inf") else value for key, value in document.items()}
