"""What is reported of an open incident, and when it is worth a report again."""

from __future__ import annotations

from dataclasses import replace

from detectors.faults import fault_of
from detectors.incidents.advice import reason
from detectors.incidents.again import occurrences
from detectors.incidents.book import OpenIncident, TakenOn
from detectors.incidents.evidence import Evidence, identity, severity_of
from detectors.incidents.explain import root_cause
from detectors.incidents.lead import leading
from detectors.incidents.parents import MIN_DEVICES, device_of
from detectors.incidents.summary import summary
from detectors.kit.maintenance import Maintenance
from pipeline.finding import Finding, Incident
from pipeline.frame import Device

MAX_JOBS = 16  # named in an incident
MAX_SINGLY = 8  # findings of an incident, each of which is reported as it comes
CLUSTER = Device("", "cluster", "cluster")


def report(incident: OpenIncident, maintenance: Maintenance) -> Incident:
    """An incident in words for people: of its evidence, or of a lemon."""
    return (
        _of_evidence(incident, maintenance) if incident.evidence else _lemon(incident, maintenance)
    )


def more(incident: OpenIncident) -> bool:
    """Whether it has enough more findings than when it was last reported."""
    n = len(incident.evidence)
    return n > incident.said and (n <= MAX_SINGLY or n >= 2 * incident.said)


def words(finding: Finding) -> str:
    """A device and its fault, as the key of what was reported of an incident."""
    return f"{finding.device.id} {finding.fault}"


def news(incident: Incident) -> tuple[object, ...]:
    """What is reported again when it changes."""
    return incident.root, incident.fault, incident.severity, incident.acknowledged_ns, incident.note


def cause(incident: OpenIncident, root: Device) -> str:
    """What is reported of the fault of its root: another sentence is reported again."""
    found = [one for one in incident.live if identity(one.device) == identity(root)]
    return leading(root_cause(found), found).finding.summary if found else ""


def _of_evidence(incident: OpenIncident, maintenance: Maintenance) -> Incident:
    live = [one for one in incident.live if not maintenance.covers(one.device)]
    severity = severity_of(live)
    live = live or incident.live
    root, blamed = _root(incident, live)
    if maintenance.covers(root):
        severity = "record"
    taken_on = incident.taken_on or TakenOn(0, "", "")
    happened = occurrences(root, incident.evidence.values())
    return Incident(
        id=incident.id,
        root=root,
        fault=blamed.finding.fault,
        severity=severity,
        action=blamed.finding.action,
        opened_ns=incident.opened_ns,
        findings=tuple(incident.evidence),
        summary=summary(root, blamed, live, happened),
        reason=reason(blamed.finding.fault, blamed.finding.action, severity),
        acknowledged_ns=taken_on.time_ns,
        note=taken_on.note,
        acknowledged_by=taken_on.user,
        jobs=tuple(dict.fromkeys(job.name for one in live if (job := one.site("job"))))[:MAX_JOBS],
        times=happened.times,
        again_ns=happened.again_ns,
    )


def _lemon(incident: OpenIncident, maintenance: Maintenance) -> Incident:
    """A lemon that somebody took on, or whose node went out of service or came back."""
    assert incident.reported is not None  # noqa: S101 - it is reported as it opens
    covered, taken_on = (
        maintenance.covers(incident.reported.root),
        incident.taken_on or TakenOn(0, "", ""),
    )
    return replace(
        incident.reported,
        severity="record" if covered else "ticket",
        acknowledged_ns=taken_on.time_ns,
        note=taken_on.note,
        acknowledged_by=taken_on.user,
    )


def _root(incident: OpenIncident, live: list[Evidence]) -> tuple[Device, Evidence]:
    """The root cause among the evidence, and the finding that leads the words."""
    strongest = root_cause(live)
    if incident.common:
        return CLUSTER, strongest
    if incident.parent:
        parts = [one for one in live if incident.parent in one.sites and _of_parent(one, incident)]
        if len({identity(one.device) for one in parts}) >= MIN_DEVICES:
            return device_of(incident.parent), leading(max(parts, key=Evidence.weight), live)
    return strongest.device, leading(strongest, live)


def _of_parent(one: Evidence, incident: OpenIncident) -> bool:
    """Whether a finding is what the place does to its parts: a symptom mostly is not."""
    assert incident.parent is not None  # noqa: S101 - it has one here
    return not one.symptom or incident.parent.level in fault_of(one.finding.fault).shared
