"""Incidents as the page and /api/v1 show them: device, cause, action, evidence with the time at
which it was last true, what is affected, links; the most urgent first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from collector.config.links import Links
from collector.integrations.verdict import called
from collector.web.affected import Affected, affected
from detectors.faults import fault_of
from detectors.incidents.summary import cause_of
from pipeline.documents import finding_document, printable
from pipeline.exposition import Snapshot
from pipeline.finding import SEVERITIES, Finding, Incident
from pipeline.frame import Attributes, Device
from pipeline.gpu_parts import OF_GPU, gpu_of
from pipeline.past_incidents import PastIncident, PastIncidents

Row = dict[str, Any]
# What is shown of a finding; its times are in ISO 8601.
SHOWN = ("id", "detector", "kind", "device", "fault", "severity", "action", "summary", "evidence")
NUMBERS = ("value", "expected", "unit")


@dataclass(frozen=True, slots=True)
class Scene:
    """What rows of incidents are made from.

    ``findings``: those that are open, as reported; ``current``: the same as their detectors see
    them now, by id. ``gpus`` are rows of the status document with ``held_by``, ``unread`` the ids
    of devices that are not being read, ``jobs`` the NCCL jobs.
    """

    snapshot: Snapshot
    findings: Mapping[str, Finding]
    current: Mapping[str, Finding]
    past: PastIncidents
    gpus: Sequence[Mapping[str, Any]] = ()
    jobs: Sequence[str] = ()
    unread: frozenset[str] = frozenset()
    links: Links = field(default_factory=Links)


class HasFacts(Protocol):
    """Knows the attributes of devices."""

    def facts(self, device: Device) -> Attributes:
        """Of one."""
        ...


def open_rows(incidents: Iterable[Incident], scene: Scene) -> list[Row]:
    """The open incidents, the most urgent first: by severity, certainty, GPUs and jobs affected,
    then age.
    """
    return sorted((_open(incident, scene) for incident in incidents), key=_urgency)


def past_rows(past: Iterable[PastIncident], scene: Scene) -> list[Row]:
    """Incidents that are over, in their order, without their evidence."""
    return [past_row(one, scene) for one in past]


def past_row(one: PastIncident, scene: Scene) -> Row:
    """An incident that is over: ``cleared`` says when, ``ended`` why."""
    return {
        **_identity(one.incident, scene),
        "cause": printable(cause_of(one.incident.summary)),
        "cleared": time(one.incident.cleared_ns),
        "ended": printable(one.incident.ended),
    }


def finding_row(finding: Finding, current: Finding | None, unread: frozenset[str]) -> Row:
    """A finding with the evidence that was last true. ``last_true`` is when that was, ``read``
    whether its device is being read, ``ended`` when it ended, null while it is open.
    """
    seen = finding if current is None or not finding.active else current
    document = finding_document(seen)
    return {
        **{name: document[name] for name in (*SHOWN, *NUMBERS)},
        "since": time(finding.onset_ns),
        "last_true": time(seen.time_ns),
        "read": printable(finding.device.id) not in unread,
        "ended": None if finding.active else time(finding.time_ns),
    }


def _open(incident: Incident, scene: Scene) -> Row:
    reported = [scene.findings[one] for one in incident.findings if one in scene.findings]
    now = [
        finding_row(finding, scene.current.get(finding.id), scene.unread) for finding in reported
    ]
    over = [finding_row(finding, None, scene.unread) for finding in _ended(incident, scene)]
    members = (*reported, *_ended(incident, scene))
    reach = affected(incident, members, scene.gpus, scene.jobs)
    return {
        **_identity(incident, scene),
        "cause": printable(_cause(incident, reported, scene)),
        "certain": fault_of(incident.fault).certain,
        "gpus_affected": list(reach.gpus),
        "jobs_affected": list(reach.jobs),
        "last_true": max((row["last_true"] for row in (*now, *over)), default=None),
        "true_now": bool(now),
        "acknowledged": time(incident.acknowledged_ns) if incident.acknowledged_ns else None,
        "acknowledged_by": printable(incident.acknowledged_by),
        "note": printable(incident.note),
        "times": incident.times,
        "again": time(incident.again_ns) if incident.again_ns else None,
        "standing": now,
        "over": over,
    }


def _ended(incident: Incident, scene: Scene) -> list[Finding]:
    return [one for one in scene.past.ended(incident.findings) if one.id not in scene.findings]


def _identity(incident: Incident, scene: Scene) -> Row:
    root, facts = incident.root, scene.snapshot.facts(incident.root)
    values = {
        "host": root.host,
        "gpu": facts.get("index", "") if root.kind in OF_GPU else "",
        "uuid": gpu_of(root),
        "device": root.id,
        "kind": root.kind,
        "class": incident.fault,
        "alert": f"tocsin{fault_of(incident.fault).alert.lower()}",
        "incident": incident.id,
    }
    return {
        "id": incident.id,
        "kind": root.kind,
        "device": printable(root.id),
        "host": printable(root.host),
        "name": name_of(root, scene.snapshot),
        "rack": printable(facts.get("rack", "")) or None,
        "serial": printable(facts.get("serial", "")) or None,
        "class": incident.fault,
        "severity": incident.severity,
        "action": incident.action,
        "reason": printable(incident.reason),
        "since": time(incident.opened_ns),
        "summary": printable(incident.summary),
        "findings": list(incident.findings),
        "links": scene.links.of({key: printable(value) for key, value in values.items()}),
    }


def name_of(device: Device, snapshot: HasFacts) -> str:
    """Display name of a device: ``GPU 3``, ``port mlx5_5/1``, ``NVLink 4 of GPU 3``."""
    facts = snapshot.facts(device)
    if device.kind == "nvlink":
        uuid, _, link = device.id.rpartition("/")
        index = facts.get("index") or snapshot.facts(Device(device.host, "gpu", uuid)).get("index")
        return printable(f"NVLink {facts.get('link', link)} of GPU {index or uuid}")
    name = printable(called(device, facts))
    return f"port {name}" if device.kind == "ib_port" and "/" in name else name


def _cause(incident: Incident, reported: Iterable[Finding], scene: Scene) -> str:
    """The first sentences of its summary, with the numbers of now where they are known."""
    cause = cause_of(incident.summary)
    for finding in reported:
        now = scene.current.get(finding.id)
        if now is not None and cause.startswith(finding.summary):
            return now.summary + cause.removeprefix(finding.summary)
    return cause


def _urgency(row: Row) -> tuple[object, ...]:
    reach = Affected(row["gpus_affected"], row["jobs_affected"])
    rank = SEVERITIES.index(row["severity"])
    affects = (-len(reach.gpus), -len(reach.jobs))
    return (-rank, not row["certain"], *affects, row["since"], row["id"])


def time(ns: int) -> str:
    """A unix time in ns as ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(ns / 1e9, UTC).isoformat(timespec="seconds")
