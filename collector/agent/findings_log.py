"""Findings and incidents in the agent's log: a JSON line per change, for those who read logs and not metrics."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from pipeline.finding import Finding, Incident
from pipeline.observation import Observation

log = logging.getLogger("tocsin.finding")
incident_log = logging.getLogger("tocsin.incident")
LEVELS = {"page": logging.ERROR, "ticket": logging.WARNING, "record": logging.INFO}


MOST_OPEN = 1000  # incidents whose last line is remembered


class FindingsLog:
    """The sink that writes them."""

    name = "log"

    def __init__(self) -> None:
        self._said: dict[str, tuple[object, ...]] = {}

    def write(self, _observation: Observation, findings: Sequence[Finding], incidents: Sequence[Incident] = ()) -> None:
        """One line per finding that began or ended, and per incident that opened, changed or ended."""
        for finding in findings:
            if finding.phase != "ongoing":
                level = LEVELS[finding.severity] if finding.active else logging.INFO
                _line(log, level, "finding", document(finding))
        for incident in incidents:
            if not self._new(incident):
                continue
            level = LEVELS[incident.severity] if incident.active else logging.INFO
            _line(incident_log, level, "incident", incident_document(incident))

    def _new(self, incident: Incident) -> bool:
        """Whether it says something that a line said not: with more findings of the same cause it does not."""
        now = (incident.root, incident.fault, incident.severity, incident.acknowledged_ns, incident.cleared_ns)
        said = self._said.pop(incident.id, None) if incident.cleared_ns else self._said.get(incident.id)
        if not incident.cleared_ns:
            self._said[incident.id] = now
            if len(self._said) > MOST_OPEN:
                del self._said[next(iter(self._said))]
        return now != said


def _line(to: logging.Logger, level: int, name: str, said: Mapping[str, Any]) -> None:
    """The document as text, and as it is for a log of JSON lines."""
    to.log(level, "%s", orjson.dumps(said).decode(), extra={"document": {"msg": said["summary"], name: said}})


def incident_document(incident: Incident) -> dict[str, Any]:
    """An incident as a plain document; times are unix seconds, null for what has not happened (yet)."""
    opened, cleared, acknowledged = (
        ns / 1e9 if ns else None for ns in (incident.opened_ns, incident.cleared_ns, incident.acknowledged_ns)
    )
    return {
        "incident": incident.id,
        "severity": incident.severity,
        "class": incident.fault,
        "root_kind": incident.root.kind,
        "root_device": _text(incident.root.id),
        "host": _text(incident.root.host),
        "opened": opened,
        "cleared": cleared,
        "summary": _text(incident.summary),
        "action": incident.action,
        "reason": incident.reason,
        "findings": list(incident.findings),
        "acknowledged": acknowledged,
        "acknowledged_by": _text(incident.acknowledged_by),
        "note": _text(incident.note),
    }


def document(finding: Finding) -> dict[str, Any]:
    """A finding as a plain document; times are unix seconds, numbers that are not known are null."""
    return {
        "id": finding.id,
        "phase": finding.phase,
        "severity": finding.severity,
        "detector": finding.detector,
        "fault": finding.fault,
        "host": finding.device.host,
        "kind": finding.device.kind,
        "device": _text(finding.device.id),
        "onset": finding.onset_ns / 1e9,
        "time": finding.time_ns / 1e9,
        "summary": finding.summary,
        "action": finding.action,
        "value": None if math.isnan(finding.value) else finding.value,
        "expected": None if math.isnan(finding.expected) else finding.expected,
        "unit": finding.unit,
        "evidence": [_text(line) for line in finding.evidence],
    }


def _text(value: str) -> str:
    """What is not a character (an undecodable byte of a file or log) becomes ``?``: JSON has no place for it."""
    return value.encode("utf-8", "replace").decode()
