"""Findings and incidents as documents for programs, as the agent's log and pages write them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from collector.findings_log import document
from collector.replaying.again import Again
from pipeline.finding import Incident
from pipeline.judged import Judged


def lines(judged: Judged) -> Iterator[dict[str, Any]]:
    """What was said of an observation: findings, then the incidents that they made or changed."""
    for finding in judged.findings:
        yield {"type": "finding", **document(finding)}
    for incident in judged.incidents:
        yield {"type": "incident", **document_of_incident(incident)}


def document_of_incident(incident: Incident) -> dict[str, Any]:
    """An incident as a plain document; times are unix seconds, those that have not come are null."""
    return {
        "id": incident.id,
        "severity": incident.severity,
        "fault": incident.fault,
        "host": incident.root.host,
        "kind": incident.root.kind,
        "device": incident.root.id.encode("utf-8", "replace").decode(),
        "opened": incident.opened_ns / 1e9,
        "cleared": incident.cleared_ns / 1e9 if incident.cleared_ns else None,
        "acknowledged": incident.acknowledged_ns / 1e9 if incident.acknowledged_ns else None,
        "findings": list(incident.findings),
        "summary": incident.summary,
        "action": incident.action,
        "reason": incident.reason,
        "note": incident.note,
    }


def differences(again: Again) -> Iterator[dict[str, Any]]:
    """One line where an observation gives other findings than it gave then."""
    if again.differs:
        observation = again.now.observation
        yield {
            "type": "difference",
            "host": observation.host,
            "source": observation.source,
            "seq": observation.seq,
            "time": observation.time_ns / 1e9,
            "then": [document(finding) for finding in again.then],
            "now": [document(finding) for finding in again.now.findings],
        }
