"""One run of one scenario: all candidates get the same frames, and the results are scored."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf
from typing import Any, Literal

from detectors import all_detectors
from detectors.incidents import Incidents
from evaluation.baselines import BASELINES
from evaluation.independent import WORLDS
from evaluation.independent.run import IndependentRun, run_of
from evaluation.metrics.agents import Agents, ShippedAgents
from evaluation.metrics.false_alarms import FalseAlarm, false_alarms
from evaluation.metrics.match import Case, Evidence, match
from evaluation.metrics.panel import Candidate, Panel, judge
from evaluation.metrics.scope import Scope
from evaluation.metrics.shipped import Shipped
from evaluation.metrics.truth import Truth
from evaluation.runs.cadence import STEP_S
from evaluation.runs.truths import hosts_of, of_an_agent, plain_truths
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding, Incident
from pipeline.interfaces import Detector, Fusion
from pipeline.observation import Observation
from simulator.fleet import Run, Scenario, load_scenario, render

OURS = "ours"
SHIPPED = "as-shipped"  # ours with shadow mode, in every run that has ours
Split = Literal["dev", "test"]
# how long a restarted twin judges too: a lost state shows by then
COMPARED_NS = 12 * 3600 * SECOND_NS
HOST_PERIOD_S = 60.0  # slow facts are read once a minute, everything else at each step


def periods_of(run: Run | IndependentRun) -> dict[str, float]:
    """Seconds between two readings, by source."""
    often = dict.fromkeys(("nvml", "infiniband", "kmsg", "jobs"), run.step_s)
    return often | dict.fromkeys(("host", "waits"), max(HOST_PERIOD_S, run.step_s))


@dataclass(frozen=True, slots=True)
class Job:
    """One rendering to judge: scenario, magnitude (nominal, half, range or a number), seed and
    split, and the candidates.

    ``contestants`` are the candidates, (name, scope): ``ours`` or a baseline; the name is a key of
    saved results. With ``restart`` a copy of ours is restarted half-way and compared for half a
    day. With more or fewer ``nodes`` than the scenario says it has more or fewer cases, unless
    ``cases`` says how many. ``agents`` is how many nodes are judged in scope node at most.
    Readings are ``step_s`` seconds apart; ``compared`` is a run whose only use is to be compared
    with the same one at another step, in no figure of the report.
    """

    scenario: str
    magnitude: str
    seed: int
    split: Split
    contestants: tuple[tuple[str, Scope], ...]
    restart: bool = False
    days: float | None = None
    nodes: int | None = None
    agents: int | None = None
    cases: int | None = None
    step_s: float = STEP_S
    compared: bool = False

    @property
    def name(self) -> str:
        """Stem of the result's file."""
        name = f"{self.scenario}-{self.magnitude}-{self.split}-{self.seed}"
        return f"{name}-each-{self.step_s:g}s" if self.compared else name

    @classmethod
    def from_json(cls, text: str) -> Job:
        """What ``json.dumps(asdict(job))`` wrote."""
        values = json.loads(text)
        return cls(
            **values
            | {"contestants": tuple((name, scope) for name, scope in values["contestants"])}
        )


def make_of(name: str) -> Callable[[], Sequence[Detector]]:
    """The detectors of a candidate. KeyError for an unknown baseline."""
    if name == OURS:
        return all_detectors
    baseline = BASELINES[name]
    return lambda: [baseline()]


def fusion_of(name: str) -> Callable[[], Fusion] | None:
    """The fusion of a candidate's findings: ours alert as incidents, those of a baseline as they
    are.
    """
    return Incidents if name == OURS else None


def made(job: Job) -> Run | IndependentRun:
    """The run of a job: one of another author has the size and the
    magnitude that it has. ValueError as from rendered.
    """
    if job.scenario in WORLDS:
        return run_of(job.scenario, WORLDS[job.scenario], job.seed, job.split)
    return rendered(job)


def rendered(job: Job) -> Run:
    """The run of a job of the suite.

    ValueError for an unknown scenario or magnitude, or for a run too short for what happens in it.
    """
    magnitude: str | float = job.magnitude
    with contextlib.suppress(ValueError):
        magnitude = float(job.magnitude)
    scenario = scaled(load_scenario(job.scenario), job.nodes, job.cases)

    def of(days: float | None) -> Run:
        return render(
            scenario,
            job.seed,
            magnitude=magnitude,
            split=job.split,
            step_s=job.step_s,
            days=days,
            nodes=job.nodes,
        )

    try:
        return of(job.days)
    except ValueError as error:
        fits = _long_enough(scenario, job.days, of)
        if fits is None:
            raise
        raise ValueError(
            f"{job.scenario}: {job.days:g} days are too short for what happens in "
            f"it, {fits:g} would do"
        ) from error


def scaled(scenario: Scenario, nodes: int | None, cases: int | None = None) -> Scenario:
    """The scenario with these cases, or with as many for its nodes as before, at least one.

    >>> (
    ...     scaled(load_scenario("F16"), 64).cases,
    ...     scaled(load_scenario("F16"), None).cases,
    ...     scaled(load_scenario("F16"), 64, 10).cases,
    ... )
    (32, 8, 10)
    """
    if not scenario.cases or (nodes is None and cases is None):
        return scenario
    return replace(
        scenario,
        cases=cases or max(1, round(scenario.cases * (nodes or scenario.nodes) / scenario.nodes)),
    )


def _long_enough(
    scenario: Scenario, days: float | None, of: Callable[[float], Run]
) -> float | None:
    """Days that a run needs, in tenths, where the ones asked for are too few; None where
    something else is wrong.
    """
    if days is None or days >= scenario.days:
        return None
    tenths = int(days * 10) + 1
    while tenths / 10 <= scenario.days:
        with contextlib.suppress(ValueError):
            of(tenths / 10)
            return tenths / 10
        tenths += 1
    return None


def run_job(
    job: Job,
    watch: Callable[[Observation], None] | None = None,
    keep: Callable[[str, Sequence[Finding], Sequence[tuple[int, Incident]]], None] | None = None,
) -> dict[str, Any]:
    """Render, run, score; the result as JSON.

    ``watch`` gets every observation as it passes, ``keep`` the findings and incidents of each
    candidate.
    """
    run = made(job)
    truths, agents = plain_truths(run), judged_agents(run, job.agents)
    candidates = [
        one for name, scope in job.contestants for one in _candidates(name, scope, agents)
    ]
    restart_at_ns = (
        run.topology.begin_ns + round(run.seconds / 2 * SECOND_NS) if job.restart else None
    )
    until_ns = judge(
        _watched(run, watch),
        candidates,
        periods_of(run),
        restart_at_ns=restart_at_ns,
        compare_ns=COMPARED_NS,
        restarts=run.restarts,
    )
    if keep is not None:
        for candidate in candidates:
            keep(f"{candidate.name}-{candidate.scope}", candidate.findings, candidate.incidents)
    return {
        "job": asdict(job),
        "kind": run.scenario.kind,
        "needs": "node" if run.scenario.known_to_an_agent else run.scenario.scope,
        "skipped": run.skipped,
        "truth": [truth.line() for truth in run.truth],
        "results": [_result(candidate, truths, until_ns, run, agents) for candidate in candidates],
    }


def judged_agents(run: Run | IndependentRun, most: int | None) -> frozenset[str]:
    """Nodes whose agents are run in scope node: the first ``most`` of those with a fault, in a
    healthy run of all.

    An agent sees nothing of other nodes, so leaving out healthy nodes changes nothing for these;
    healthy operation is counted in healthy runs.
    """
    healthy = run.scenario.kind == "healthy"
    struck = [host for truth in run.truth if not healthy for host in hosts_of(run, truth)]
    return frozenset(list(dict.fromkeys(struck or run.topology.hosts))[:most])


def _candidates(name: str, scope: Scope, agents: frozenset[str]) -> Iterator[Candidate]:
    if name == OURS and scope == "node":
        at_once = Candidate(name, scope, Agents(make_of(name), Incidents, agents))
        yield at_once
        yield Candidate(SHIPPED, scope, ShippedAgents(at_once, Incidents))
        return
    first = Candidate(
        name,
        scope,
        Panel(make_of(name), scope, fusion_of(name), only=agents),
        restarts=name == OURS,
    )
    yield first
    if name == OURS:
        yield Candidate(SHIPPED, scope, Shipped(first, Incidents))


def _watched(
    run: Run | IndependentRun, watch: Callable[[Observation], None] | None
) -> Iterable[Observation]:
    for observation in run.observations():
        if watch is not None:
            watch(observation)
        yield observation


def _result(
    candidate: Candidate,
    truths: Sequence[Truth],
    until_ns: int,
    run: Run | IndependentRun,
    agents: frozenset[str],
) -> dict[str, Any]:
    watched = 1.0
    if candidate.scope == "node":
        watched = len(agents) / len(run.topology.hosts)
        truths = [
            of_an_agent(truth, run.scenario)
            for truth, simulated in zip(truths, run.truth, strict=True)
            if set(hosts_of(run, simulated)) <= agents
        ]
    cases, stray = match(truths, candidate.alerts, until_ns)
    return {
        "contestant": candidate.name,
        "scope": candidate.scope,
        "gpu_s": run.gpu_seconds * watched,
        "port_s": run.port_seconds * watched,
        "cases": [_finite(asdict(case)) for case in cases],
        "false": [_finite(asdict(alarm)) for alarm in false_alarms(stray)],
        "findings": len(candidate.findings),
        "incidents": len({incident.id for _, incident in candidate.incidents}),
        "restarted": candidate.compared,
        "differences": candidate.differences[:100],
        "forgetful": list(candidate.panel.forgetful()) if candidate.compared else [],
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
    return {
        key: float(value) if value in ("inf", "-inf") else value for key, value in document.items()
    }
