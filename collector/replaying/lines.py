"""Findings and incidents as documents for programs, as the agent's log and pages write them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from collector.replaying.rejudge import Rejudged
from pipeline.documents import finding_document, incident_document
from pipeline.judged import JudgedObservation

# Keys that these lines share with those of findings.
NAMES = {"incident": "id", "class": "fault", "root_kind": "kind", "root_device": "device"}


def lines(judged: JudgedObservation) -> Iterator[dict[str, Any]]:
    """What was said of an observation: findings, then the incidents that they made or changed."""
    for finding in judged.findings:
        yield {"type": "finding", **finding_document(finding)}
    for incident in judged.incidents:
        document = incident_document(incident)
        yield {"type": "incident", **{NAMES.get(k, k): v for k, v in document.items()}}


def differences(again: Rejudged) -> Iterator[dict[str, Any]]:
    """One line where an observation gives other findings than it gave then."""
    if again.differs:
        observation = again.now.observation
        yield {
            "type": "difference",
            "host": observation.host,
            "source": observation.source,
            "seq": observation.seq,
            "time": observation.time_ns / 1e9,
            "then": [finding_document(finding) for finding in again.then],
            "now": [finding_document(finding) for finding in again.now.findings],
        }
