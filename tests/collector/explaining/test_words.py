"""The text of an incident, from rows of a test."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import orjson

from collector.explaining.words import words
from pipeline.store.query.incident_history import FindingHistory, IncidentHistory

BEGIN = datetime(2027, 1, 15, 8, tzinfo=UTC)


def test_a_severity_is_a_word_that_operators_use() -> None:
    """What the store calls a record is info: of the incident and of its findings."""
    about = {
        "id": "8f14e45fceea167a",
        "device": "GPU-1",
        "device_kind": "gpu",
        "fault": "xid",
        "severity": "record",
        "action": "NONE",
        "summary": "XID 63.",
    }
    incident = {"host": "n1", "opened": BEGIN, "cleared": None, "reason": "", "acknowledged": None}
    finding = {
        "detector": "xid",
        "device_attributes": orjson.dumps(["n1", {}]).decode(),
        "onset": BEGIN,
        "said": BEGIN,
        "phase": "onset",
        "value": None,
        "evidence": (),
    }
    history = IncidentHistory(about | incident, (FindingHistory((about | finding,)),))
    lines = [" ".join(line.split()) for line in words(history, BEGIN + timedelta(minutes=1))]
    assert "class xid, info" in lines
    assert "finding 8f14e45f, xid, info" in lines
