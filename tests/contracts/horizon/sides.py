"""Two ways to judge the same agents: one by one, and joined at horizon node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import zip_longest

from detectors import all_detectors
from detectors.incidents import Incidents
from detectors.node_horizon import NodeHorizon
from pipeline.finding import Finding, Incident
from pipeline.interfaces import Detector
from pipeline.judge import Judge
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics
from tests.contracts.horizon.world import Agent
from tests.fakes import FakeClock

Said = dict[str, list[str]]  # by host, in order
Batches = Callable[[Sequence[Agent]], Iterator[list[Observation]]]


def singles(
    agents: Sequence[Agent],
    periods_s: Mapping[str, float],
    make: Callable[[], Sequence[Detector]] = all_detectors,
) -> Said:
    """What the judge of each agent says."""
    said: Said = {}
    for agent in agents:
        judge = Judge(make(), SelfMetrics(), FakeClock(), periods_s=periods_s, fusion=Incidents())
        for one in agent:
            take(said, judge.judge(one))
    return said


def joined(
    agents: Sequence[Agent],
    periods_s: Mapping[str, float],
    batches: Batches,
    make: Callable[[], Sequence[Detector]] = all_detectors,
) -> Said:
    """What one judge of all of them says."""
    judge, said = NodeHorizon(make, Incidents, periods_s), Said()
    for batch in batches(agents):
        for judged in judge.judge(batch):
            take(said, judged)
    return said


def by_count(agents: Sequence[Agent]) -> Iterator[list[Observation]]:
    """The first of each agent, then the second of each, whenever that was read."""
    for batch in zip_longest(*agents):
        yield [one for one in batch if one is not None]


def by_time(agents: Sequence[Agent]) -> Iterator[list[Observation]]:
    """What was read within ten seconds of wall clock, an observation of each agent at a time."""
    waiting = [list(reversed(agent)) for agent in agents]
    while any(waiting):
        first_ns = min(agent[-1].time_ns for agent in waiting if agent)
        yield [
            agent.pop() for agent in waiting if agent and agent[-1].time_ns - first_ns < 10 * 10**9
        ]


def of_detectors(said: Said, names: Collection[str]) -> Said:
    """Only what these said."""
    return {
        host: [one for one in all_of_it if one.split()[0] in names]
        for host, all_of_it in said.items()
    }


def take(said: Said, judged: JudgedObservation) -> None:
    """Add what is said of an observation."""
    words = said.setdefault(judged.observation.host, [])
    words += [_finding(finding) for finding in judged.findings]
    words += [_incident(incident) for incident in judged.incidents]


def _finding(f: Finding) -> str:
    return (
        f"{f.detector} {f.phase} {f.severity} {f.fault} {f.device.kind} {f.device.id} {f.id} "
        f"{f.onset_ns} {f.time_ns} {f.summary} {f.value} {f.evidence}"
    )


def _incident(i: Incident) -> str:
    return f"incidents {i}"
