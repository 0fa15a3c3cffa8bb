"""Findings and incidents in the agent's log: a JSON line per change, for those who
read logs and not metrics.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from collector.integrations.drain import SHORT_ID
from collector.integrations.verdict import called
from pipeline.documents import finding_document, incident_document, printable
from pipeline.finding import Finding, Incident
from pipeline.observation import Observation

log = logging.getLogger("tocsin.finding")
incident_log = logging.getLogger("tocsin.incident")
LEVELS = {"page": logging.ERROR, "ticket": logging.WARNING, "record": logging.INFO}


MAX_OPEN = 1000  # incidents whose last line is remembered


class FindingsLog:
    """The sink that writes them."""

    name = "log"

    def __init__(self) -> None:
        self._said: dict[str, tuple[object, ...]] = {}

    def write(
        self,
        _observation: Observation,
        findings: Sequence[Finding],
        incidents: Sequence[Incident] = (),
    ) -> None:
        """One line per finding that began or ended, and per incident that
        opened, changed or ended.
        """
        for finding in findings:
            if finding.phase != "ongoing":
                level = LEVELS[finding.severity] if finding.active else logging.INFO
                _line(log, level, "finding", finding_document(finding))
        for incident in incidents:
            if not self._new(incident):
                continue
            level = LEVELS[incident.severity] if incident.active else logging.INFO
            _line(incident_log, level, "incident", _described(incident))

    def _new(self, incident: Incident) -> bool:
        """Whether it says something that a line said not: with more findings of
        the same cause it does not.
        """
        now = (
            incident.root,
            incident.fault,
            incident.severity,
            incident.acknowledged_ns,
            incident.cleared_ns,
        )
        said = (
            self._said.pop(incident.id, None)
            if incident.cleared_ns
            else self._said.get(incident.id)
        )
        if not incident.cleared_ns:
            self._said[incident.id] = now
            if len(self._said) > MAX_OPEN:
                del self._said[next(iter(self._said))]
        return now != said


def _described(incident: Incident) -> dict[str, Any]:
    """An incident with the part as operators call it, where its device says so."""
    facts = incident.root.attributes
    known = {name: printable(facts[name]) for name in ("serial", "rack") if facts.get(name)}
    return {**incident_document(incident), "name": called(incident.root, facts), **known}


def _sentence(said: Mapping[str, Any]) -> str:
    """The message of a log of JSON lines: device first; the incident as `tocsin explain` takes it.

    >>> _sentence({"summary": "Fell off the bus.", "finding": "x"})
    'Fell off the bus.'
    """
    if "incident" not in said:
        return str(said["summary"])
    known = ", ".join(f"{name} {said[name]}" for name in ("serial", "rack") if name in said)
    host = "" if said["root_kind"] == "node" else f" on {said['host']}"
    where = f"{said['name']}{host}{f' ({known})' if known else ''}"
    step = f" {said['reason']}" if said["reason"] else ""
    return f"{where}: {said['summary']}{step} Incident {said['incident'][:SHORT_ID]}."


def _line(to: logging.Logger, level: int, name: str, said: Mapping[str, Any]) -> None:
    """The document as text, and as it is for a log of JSON lines."""
    to.log(
        level,
        "%s",
        orjson.dumps(said).decode(),
        extra={"document": {"msg": _sentence(said), name: said}},
    )
