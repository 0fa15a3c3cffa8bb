"""Findings and incidents as plain documents: the one that logs, `tocsin replay`, the page and its
API show, and an exact one that snapshots keep.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

from pipeline.clock import SECOND_NS
from pipeline.finding import Finding, Incident
from pipeline.frame import Device


def finding_document(finding: Finding) -> dict[str, Any]:
    """A finding for readers: times are unix seconds, numbers that are not known are null."""
    return {
        "id": finding.id,
        "phase": finding.phase,
        "severity": finding.severity,
        "detector": finding.detector,
        "fault": finding.fault,
        "host": printable(finding.device.host),
        "kind": finding.device.kind,
        "device": printable(finding.device.id),
        "onset": finding.onset_ns / SECOND_NS,
        "time": finding.time_ns / SECOND_NS,
        "summary": printable(finding.summary),
        "action": finding.action,
        "value": None if math.isnan(finding.value) else finding.value,
        "expected": None if math.isnan(finding.expected) else finding.expected,
        "unit": finding.unit,
        "evidence": [printable(line) for line in finding.evidence],
        "times": finding.times,
        "again": finding.again_ns / SECOND_NS if finding.again_ns else None,
    }


def incident_document(incident: Incident) -> dict[str, Any]:
    """An incident for readers: times are unix seconds, null for what has not happened (yet)."""
    opened, cleared, acknowledged, again = (
        ns / SECOND_NS if ns else None
        for ns in (
            incident.opened_ns,
            incident.cleared_ns,
            incident.acknowledged_ns,
            incident.again_ns,
        )
    )
    return {
        "incident": incident.id,
        "severity": incident.severity,
        "class": incident.fault,
        "root_kind": incident.root.kind,
        "root_device": printable(incident.root.id),
        "host": printable(incident.root.host),
        "opened": opened,
        "cleared": cleared,
        "summary": printable(incident.summary),
        "action": incident.action,
        "reason": incident.reason,
        "findings": list(incident.findings),
        "acknowledged": acknowledged,
        "acknowledged_by": printable(incident.acknowledged_by),
        "note": printable(incident.note),
        "ended": printable(incident.ended),
        "jobs": [printable(job) for job in incident.jobs],
        "times": incident.times,
        "again": again,
    }


def printable(text: str) -> str:
    """What is not a character (an undecodable byte of a file or log) becomes ``?``:
    JSON has no place for it.
    """
    return text.encode("utf-8", "replace").decode()


def exact(value: Finding | Incident | Device) -> dict[str, Any]:
    """Every field as it is, for snapshots; ``exact_finding`` and ``exact_incident`` read it."""
    document = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Device):
        return {**document, "attributes": dict(value.attributes)}
    return {name: exact(one) if isinstance(one, Device) else one for name, one in document.items()}


def exact_finding(document: dict[str, Any]) -> Finding:
    """The finding of an exact document. TypeError or KeyError where it is none."""
    device, evidence = Device(**document["device"]), tuple(document["evidence"])
    return Finding(**{**document, "device": device, "evidence": evidence})


def exact_incident(document: dict[str, Any]) -> Incident:
    """The incident of an exact document. TypeError or KeyError where it is none."""
    lists = {name: tuple(document.get(name, ())) for name in ("findings", "jobs")}
    return Incident(**{**document, **lists, "root": Device(**document["root"])})
