"""What is found of a run under each scheduler, as texts without names, to be compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from detectors import all_detectors
from detectors.faults import fault_of
from detectors.incidents import Incidents
from evaluation.metrics.agents import Agents
from evaluation.metrics.panel import Candidate, Panel, judge
from evaluation.runs.run import periods_of
from evaluation.schedulers.kubernetes import Kubernetes
from evaluation.schedulers.pages import Recorded, pages
from evaluation.schedulers.placed import Scheduler
from evaluation.schedulers.route import Routes
from evaluation.schedulers.slurm import Slurm
from evaluation.schedulers.stream import Scheduled
from evaluation.schedulers.twenty import Hours
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding
from pipeline.frame import Device
from simulator.fleet import Run, Truth

SCHEDULERS: Mapping[str, type[Slurm | Kubernetes]] = {
    "slurm": Slurm,
    "kubernetes": Kubernetes,
}

# of a text until where it names a device: who says it, phase, severity, detector and class
WORDS = {"findings": 5, "incidents": 4}

# The end of a job of Slurm is seen when its step's processes are gone, that of a training when its
# pods are no longer listed (collector/sources/jobs/job_tracker.py: GONE_NS): what a job's end
# clears may be cleared so much later.
LATE_NS = 60 * SECOND_NS
AFTER_NS = 600 * SECOND_NS  # in which a fault that is over may still be reported
Times = Mapping[str, list[int]]  # by text


@dataclass(frozen=True)
class Verdicts:
    """Of one run under one scheduler: ``findings`` and ``incidents`` as texts with their times in
    unix ns, of a gateway and of its agents; ``pages`` of the jobs that ended, by number and run.
    """

    findings: Times
    incidents: Times
    pages: Mapping[str, Any]
    found: int = 0  # faults of the run


def verdicts(run: Run, hours: Hours, name: str, folder: Path) -> Verdicts:
    """Judge a run of some hours under a scheduler; its store goes below ``folder``."""
    scheduler = SCHEDULERS[name]()
    scheduled = Scheduled(run, scheduler, hours)
    recorded = Recorded(scheduled.observations())
    judges = [
        Candidate("gateway", "fleet", Panel(all_detectors, "fleet", Incidents)),
        Candidate("agents", "node", Agents(all_detectors, Incidents)),
    ]
    judge(recorded, judges, periods_of(run))
    findings = [
        (f"{one.name} {text}", at)
        for one in judges
        for text, at in _findings(one.findings, scheduler)
    ]
    incidents = [
        (f"{one.name} {text}", at)
        for one in judges
        for text, at in _incidents(one, scheduled.routes, scheduler)
    ]
    gateway = judges[0]
    made = pages(
        folder / name, recorded, gateway.findings, gateway.incidents, scheduled.over, scheduler
    )
    onsets = [f for one in judges for f in one.findings if f.phase == "onset"]
    found = sum(any(_is_of(f, truth) for f in onsets) for truth in run.truth)
    return Verdicts(_times(findings), _times(incidents), made, found)


def _is_of(finding: Finding, truth: Truth) -> bool:
    """Whether a finding has the class of a fault, while it lasts, about one of its devices or of
    the nodes that these are in.
    """
    devices = truth.members or ((truth.entity,) if isinstance(truth.entity, Device) else ())
    hosts = {one.host for one in devices}
    return (
        fault_of(finding.fault).scored_as == truth.fault
        and truth.onset_ns <= finding.time_ns <= truth.end_ns + AFTER_NS
        and (finding.device in devices or finding.device.host in hosts)
    )


def _times(rows: Iterable[tuple[str, int]]) -> Times:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for text, at in sorted(rows):
        found[text].append(at)
    return found


def _findings(findings: Iterable[Finding], scheduler: Scheduler) -> Iterator[tuple[str, int]]:
    for one in findings:
        about = f"{one.device.host}/{one.device.kind}/{one.device.id}"
        text = (
            f"{one.phase} {one.severity} {one.detector} {one.fault} {about} {one.onset_ns} "
            f"{one.action} {one.value:.6g} {one.summary} {one.evidence}"
        )
        yield scheduler.neutral(text), one.time_ns


def _incidents(
    judged: Candidate, routes: Routes, scheduler: Scheduler
) -> Iterator[tuple[str, int]]:
    """Members as the findings they are: ids are made of names."""
    members = {one.id: f"{one.detector} {one.device.host} {one.fault}" for one in judged.findings}
    for at, one in judged.incidents:
        receiver, owner, job = routes.of(one, one.opened_ns)
        name = "its own" if owner == scheduler.owner else owner
        text = (
            f"{'open' if one.active else 'cleared'} {one.severity} {one.fault} "
            f"{one.root.host}/{one.root.kind}/{one.root.id} {one.action} {one.opened_ns} "
            f"{one.summary} {one.reason} jobs {sorted(map(scheduler.neutral, one.jobs))} "
            f"to {receiver} {name} {job} "
            f"{[members[name] for name in one.findings]}"
        )
        yield scheduler.neutral(text), at


def differences(one: Verdicts, other: Verdicts) -> list[str]:
    """What only one of them has, a line each."""
    lines = []
    for what in ("findings", "incidents"):
        mine, its = getattr(one, what), getattr(other, what)
        for text in mine.keys() | its.keys():
            late_ns = LATE_NS if " cleared " in text else 0
            times = mine.get(text, ()), its.get(text, ())
            if len(times[0]) != len(times[1]) or any(
                abs(a - b) > late_ns for a, b in zip(*times, strict=True)
            ):
                lines.append(f"{what} {times[0]} != {times[1]}: {text}")
    for key in sorted(one.pages.keys() | other.pages.keys()):
        mine, its = one.pages.get(key, {}), other.pages.get(key, {})
        lines += [
            f"page {key} {part}: {mine.get(part)} != {its.get(part)}"
            for part in sorted(mine.keys() | its.keys())
            if mine.get(part) != its.get(part)
        ]
    return sorted(lines)


def summary(difference: str) -> str:
    """What a line of ``differences`` is about: whose findings of a class, statements of incidents,
    or a part of pages; and which scheduler's alone, where it is in one alone.

    >>> summary("findings () != [7]: agents onset record hang hang/waits n1/node/n1 5 NONE 180 A.")
    'findings of Kubernetes alone: agents onset record hang hang/waits'
    >>> summary("findings [7] != [9]: agents onset record hang hang/waits n1/node/n1 5 NONE 180 A.")
    'findings: agents onset record hang hang/waits'
    >>> summary("page 7/0 cause: exit != signal")
    'page cause'
    """
    head, _, text = difference.partition(": ")
    what, _, part, *_ = head.split()
    if what == "page":
        return f"page {part}"
    first, _, second = head.removeprefix(f"{what} ").partition(" != ")
    of = {first: " of Kubernetes alone", second: " of Slurm alone"}.get("()", "")
    return f"{what}{of}: {' '.join(text.split()[: WORDS[what]])}"
