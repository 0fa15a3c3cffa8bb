"""Findings in the agent's log: one JSON line each, for those who read logs and not metrics."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

import orjson

from pipeline.finding import Finding, Incident
from pipeline.observation import Observation

log = logging.getLogger("tocsin.finding")
LEVELS = {"page": logging.ERROR, "ticket": logging.WARNING, "record": logging.INFO}


class FindingsLog:
    """The sink that writes them."""

    name = "log"

    def write(self, _observation: Observation, findings: Sequence[Finding], _incidents: Sequence[Incident] = ()) -> None:
        """One line per finding that began or ended."""
        for finding in findings:
            if finding.phase != "ongoing":
                level = LEVELS[finding.severity] if finding.active else logging.INFO
                log.log(level, "%s", orjson.dumps(document(finding)).decode())


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
        "device": finding.device.id.encode("utf-8", "replace").decode(),
        "onset": finding.onset_ns / 1e9,
        "time": finding.time_ns / 1e9,
        "summary": finding.summary,
        "action": finding.action,
        "value": None if math.isnan(finding.value) else finding.value,
        "expected": None if math.isnan(finding.expected) else finding.expected,
        "unit": finding.unit,
        "evidence": [line.encode("utf-8", "replace").decode() for line in finding.evidence],
    }
