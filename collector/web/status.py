"""The node at one instant as a plain document: what /api/v1/status answers and the landing page shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from collector.out_of_service import Out
from pipeline.catalog import FIELDS, Field, agent
from pipeline.exposition import Entry, Snapshot
from pipeline.finding import Finding, Incident
from pipeline.frame import Device
from pipeline.selfmetrics import SelfMetrics


@dataclass(frozen=True, slots=True)
class Said:
    """What was said of the node: findings that stand, open incidents, the health of devices, and who is out of service."""

    findings: Sequence[Finding] = ()
    incidents: Sequence[Incident] = ()
    health: Mapping[Device, str] = field(default_factory=dict)
    out: Sequence[Out] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """Who serves this. ``simulated`` names the profile of a simulated node, empty on real hardware."""

    host: str
    version: str
    simulated: str = ""


def _by_dcgm(number: int) -> Field | None:
    """The GPU field with this DCGM id."""
    return next((f for f in FIELDS if f.kind == "gpu" and any(d.id == number for d in f.dcgm)), None)


def _by_name(kind: str, name: str) -> Field | None:
    return next((f for f in FIELDS if (f.kind, f.name) == (kind, name)), None)


# Column of the document, unit included, to the field that fills it. 150, 155, 203, 252: ids of dcgm_fields.h.
GPU_COLUMNS = {
    "temperature_celsius": _by_dcgm(150),
    "power_watts": _by_dcgm(155),
    "utilization_ratio": _by_dcgm(203),
    "memory_used_bytes": _by_dcgm(252),
}
PORT_COLUMNS = {"rate_bytes_per_second": _by_name("ib_port", "rate_bits_per_second")}


def status(node: Node, snapshot: Snapshot, said: Said, own: SelfMetrics, *, now_ns: int, unready: str) -> dict[str, Any]:
    """The whole document. Values in base units; null = not observed; a device of a silent source is ``fresh: false``."""
    return {
        "host": node.host,
        "version": node.version,
        "simulated": node.simulated or None,
        "time": _time(now_ns),
        "ready": not unready,
        "unready_reason": unready or None,
        "gpus": [row for entry in snapshot.of("gpu") for row in _devices(entry, snapshot, "name", GPU_COLUMNS, said.health)],
        "ports": [
            row for entry in snapshot.of("ib_port") for row in _devices(entry, snapshot, "device", PORT_COLUMNS, said.health)
        ],
        "incidents": incidents(said),
        "maintenance": [_out(out) for out in said.out],
        "findings": [_finding(finding) for finding in said.findings],
        "sources": list(_sources(own, now_ns)),
    }


def incidents(said: Said) -> list[dict[str, Any]]:
    """The open incidents, the gravest first; of their findings those that stand, in the order of evidence."""
    standing = {finding.id: finding for finding in said.findings}
    return [_incident(incident, [standing[i] for i in incident.findings if i in standing]) for incident in said.incidents]


def _incident(incident: Incident, members: Sequence[Finding]) -> dict[str, Any]:
    return {
        "id": incident.id,
        "kind": incident.root.kind,
        "device": _text(incident.root.id),
        "host": _text(incident.root.host),
        "class": incident.fault,
        "severity": incident.severity,
        "action": incident.action,
        "reason": incident.reason,
        "since": _time(incident.opened_ns),
        "summary": _text(incident.summary),
        "acknowledged": _time(incident.acknowledged_ns) if incident.acknowledged_ns else None,
        "acknowledged_by": _text(incident.acknowledged_by),
        "note": _text(incident.note),
        "findings": list(incident.findings),
        "standing": [_finding(member) for member in members],
    }


def _out(out: Out) -> dict[str, Any]:
    return {
        "kind": out.kind,
        "device": _text(out.id),
        "since": _time(out.since_ns),
        "until": _time(out.until_ns) if out.until_ns else None,
        "reason": _text(out.reason),
        "user": _text(out.user),
    }


def _devices(
    entry: Entry, snapshot: Snapshot, title: str, columns: dict[str, Field | None], health: Mapping[Device, str]
) -> Iterator[dict[str, Any]]:
    for row, device in enumerate(entry.frame.devices):
        facts = snapshot.facts(device)
        yield {
            "id": _text(device.id),
            "index": _text(facts.get("index") or facts.get("port") or ""),
            "name": _text(facts.get(title) or device.id),
            "state": _state(entry, row),
            "health": health.get(device, "ok"),
            "fresh": entry.fresh,
            **{column: _value(entry, field, row) for column, field in columns.items()},
        }


def _state(entry: Entry, row: int) -> str:
    field = _by_name(entry.frame.kind, "state")
    code = entry.frame.value("state", row)
    return next((name for number, name in field.states if number == code), "unknown") if field else "unknown"


def _value(entry: Entry, field: Field | None, row: int) -> float | None:
    native = entry.frame.value(field.name, row) if field is not None and entry.fresh else None
    return None if native is None or field is None else field.base(native)


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "detector": finding.detector,
        "kind": finding.device.kind,
        "device": _text(finding.device.id),
        "fault": finding.fault,
        "severity": finding.severity,
        "action": finding.action,
        "since": _time(finding.onset_ns),
        "summary": _text(finding.summary),
        "evidence": [_text(line) for line in finding.evidence],
    }


def _sources(own: SelfMetrics, now_ns: int) -> Iterator[dict[str, Any]]:
    names = [labels[0] for metric, rows in own.series() if metric is agent.SOURCE_SUCCESS for labels, _ in rows]
    for name in names:
        last = own.value(agent.SOURCE_LAST_SUCCESS, name)
        yield {
            "name": name,
            "success": own.value(agent.SOURCE_SUCCESS, name) == 1,
            "age_seconds": round(max(now_ns / 1e9 - last, 0.0), 3) if last else None,
            "duration_seconds": own.value(agent.SOURCE_DURATION, name),
        }


def _text(value: str) -> str:
    """What is not a character (an undecodable byte of a file or log) becomes ``?``: JSON has no place for it."""
    return value.encode("utf-8", "replace").decode()


def _time(ns: int) -> str:
    return datetime.fromtimestamp(ns / 1e9, UTC).isoformat(timespec="seconds")
