"""Incidents in which several devices, or several actions, compete: what is known of each of them,
and which are right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log1p

from detectors.faults import fault_class, fault_of
from detectors.incidents.graph import CONTAINERS
from detectors.incidents.lead import REACH
from detectors.kit.findings import RANK
from evaluation.metrics.classes import class_of
from evaluation.metrics.truth import Entity, Truth, entity_of
from pipeline.clock import SECOND_NS
from pipeline.finding import Finding, Incident
from pipeline.frame import Device

LATE_NS = 600 * SECOND_NS  # evidence of a fault may come so long after its end


@dataclass(frozen=True, slots=True)
class Choice:
    """What may be named: its numbers, whether the rules name it, and whether it is right."""

    numbers: Mapping[str, float]
    ruled: bool
    right: bool


@dataclass(frozen=True, slots=True)
class Decision:
    """One incident, as it was reported when all its findings had come: at least two choices, of
    which some are right.
    """

    of: str  # device or action
    choices: tuple[Choice, ...]


def decisions(
    findings: Iterable[Finding], incidents: Iterable[tuple[int, Incident]], truths: Sequence[Truth]
) -> Iterator[Decision]:
    """Of all incidents about something that is really wrong. Those about nothing have no right
    root, and are for a calibration.
    """
    said: dict[str, list[Finding]] = {}
    for finding in findings:
        said.setdefault(finding.id, []).append(finding)
    whole: dict[str, tuple[int, Incident]] = {}
    for at, incident in incidents:
        known_by = whole.get(incident.id)
        more = known_by is None or len(incident.findings) > len(known_by[1].findings)
        if incident.active and more:
            whole[incident.id] = at, incident
    for at_ns, incident in whole.values():
        known = [_at(said[name], at_ns) for name in incident.findings if name in said]
        if incident.severity == "record" or not known:
            continue
        wrong = [one for one in truths if _is_of(one, incident, at_ns, known)]
        if wrong:
            yield from _devices(incident, known, wrong)
            yield from _actions(incident, known, wrong)


def _at(reports: Sequence[Finding], at_ns: int) -> Finding:
    """As it was at a time; as it was first where its report has that very time rounded."""
    return next((one for one in reversed(reports) if one.time_ns <= at_ns), reports[0])


def _is_of(truth: Truth, incident: Incident, at_ns: int, known: Iterable[Finding]) -> bool:
    """Whether a finding of the incident names the fault, or the incident does for all of them."""
    lasted = truth.onset_ns <= at_ns and truth.end_ns + LATE_NS >= incident.opened_ns
    named = any(_names(truth, finding.device, finding.fault) for finding in known)
    return lasted and (named or _names(truth, incident.root, incident.fault))


def _names(truth: Truth, device: Device, fault: str) -> bool:
    return entity_of(device) in truth.exact and class_of(fault) == truth.fault


def _devices(
    incident: Incident, known: Sequence[Finding], wrong: Sequence[Truth]
) -> Iterator[Decision]:
    devices: dict[Entity, list[Finding]] = {entity_of(incident.root): []}
    for finding in known:
        devices.setdefault(entity_of(finding.device), []).append(finding)
    if len({entity_of(finding.device) for finding in known}) < 2:
        return
    root = entity_of(incident.root)
    right = {entity for truth in wrong for entity in truth.exact}
    yield Decision(
        "device",
        tuple(
            Choice(
                _numbers(entity.kind, own or list(known), known), entity == root, entity in right
            )
            for entity, own in devices.items()
        ),
    )


def _actions(
    incident: Incident, known: Sequence[Finding], wrong: Sequence[Truth]
) -> Iterator[Decision]:
    """Right is the action that goes furthest of the findings that name what is wrong, as who knows
    the truth would read them.
    """
    actions: dict[str, list[Finding]] = {}
    for finding in known:
        actions.setdefault(finding.action, []).append(finding)
    naming = [
        finding
        for finding in known
        for truth in wrong
        if _names(truth, finding.device, finding.fault)
    ]
    if len(actions) < 2 or not naming:
        return
    best = max(REACH[finding.action] for finding in naming)
    right = {finding.action for finding in naming if REACH[finding.action] == best}
    yield Decision(
        "action",
        tuple(
            Choice(
                {**_numbers(own[0].device.kind, own, known), f"action={action}": 1.0},
                action == incident.action,
                action in right,
            )
            for action, own in actions.items()
        ),
    )


def _numbers(kind: str, own: Sequence[Finding], known: Sequence[Finding]) -> dict[str, float]:
    """Of the findings about a choice beside all of the incident."""
    rows = [fault_of(finding.fault) for finding in own]
    first = min(finding.onset_ns for finding in known)
    hosts = Counter(finding.device.host for finding in known)
    places = {level for finding in own for level in _above(finding.device)}
    return {
        "severity": float(max(RANK[finding.severity] for finding in own)),
        "certain": float(any(row.certain for row in rows)),
        "hardware": float(any(row.origin == "hardware" for row in rows)),
        "symptom": float(all(row.symptom for row in rows)),
        "strength": float(max(row.strength for row in rows)),
        "container": float(kind in CONTAINERS),
        "active": float(any(finding.active for finding in own)),
        "findings": log1p(len(own)),
        "share": len(own) / len(known),
        "late": log1p((min(finding.onset_ns for finding in own) - first) / SECOND_NS),
        "times": log1p(max(finding.times for finding in own)),
        "same_host": max(hosts[finding.device.host] for finding in own) / len(known),
        "places": float(len(places)),
        f"kind={kind}": 1.0,
        **{f"class={fault_class(finding.fault)}": 1.0 for finding in own},
    }


def _above(device: Device) -> Iterator[str]:
    """Places that others share with it: by name."""
    for name in ("rack", "leaf", "job", "fabric_cluster"):
        if value := device.attributes.get(name):
            yield f"{name} {value}"
