"""The node at one instant as a plain document: what /api/v1/status answers and the status page shows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from datetime import UTC, datetime
from typing import Any

from collector.out_of_service import Out
from collector.web.agent_parts import parts, sources
from collector.web.columns import NOW
from collector.web.verdict import verdict
from pipeline.catalog import device_job, field
from pipeline.exposition import Entry, Snapshot, stalls
from pipeline.finding import Finding, Incident
from pipeline.frame import Device
from pipeline.selfmetrics import SelfMetrics


@dataclass(frozen=True, slots=True)
class Said:
    """What was said of the node: findings that stand, open incidents, the health of devices, and who is out of service."""

    findings: Sequence[Finding] = ()
    incidents: Sequence[Incident] = ()
    health: Mapping[Device, str] = dataclass_field(default_factory=dict)
    out: Sequence[Out] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """Who serves this. ``simulated`` names the profile of a simulated node, empty on real hardware."""

    host: str
    version: str
    simulated: str = ""


# Slow facts that help to find a part: in a rack, in a ticket, in an order for another one.
FACTS = {
    "gpu": ("pci_bus_id", "serial", "module", "numa_node", "vbios", "driver_version"),
    "ib_port": ("pci_bus_id", "net_device", "link_layer", "numa_node", "firmware", "node_guid"),
}

HOLDER = ("scheduler", *device_job.IDENTITY, "user", "job_name", "gpu_instance")


def status(node: Node, snapshot: Snapshot, said: Said, own: SelfMetrics, *, now_ns: int, unready: str) -> dict[str, Any]:
    """The whole document. Values in base units; null = not observed; a device of a silent source is ``fresh: false``."""
    holders = _holders(snapshot)
    document: dict[str, Any] = {
        "host": node.host,
        "version": node.version,
        "simulated": node.simulated or None,
        "time": _time(now_ns),
        "ready": not unready,
        "unready_reason": unready or None,
        "gpus": [
            row | {"held_by": holders.get(row["id"], [])}
            for entry in snapshot.of("gpu")
            for row in _devices(entry, snapshot, "name", said.health)
        ],
        "ports": [
            row | {"expected": _expected(entry, number)}
            for entry in snapshot.of("ib_port")
            for number, row in enumerate(_devices(entry, snapshot, "device", said.health))
        ],
        "jobs": list(_jobs(snapshot, said, now_ns)),
        "incidents": incidents(said),
        "maintenance": [_out(out) for out in said.out],
        "findings": [_finding(finding) for finding in said.findings],
        "sources": list(sources(own, now_ns)),
        "agent": list(parts(own, now_ns)),
    }
    return document | {"verdict": verdict(document)}


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


def _devices(entry: Entry, snapshot: Snapshot, title: str, health: Mapping[Device, str]) -> Iterator[dict[str, Any]]:
    kind = entry.frame.kind
    columns = {column.name: column.read(entry.frame) for column in NOW[kind]}
    for row, device in enumerate(entry.frame.devices):
        facts = snapshot.facts(device)
        yield {
            "id": _text(device.id),
            "index": _text(facts.get("index") or facts.get("port") or ""),
            "name": _text(facts.get(title) or device.id),
            "state": _state(entry, row),
            "health": health.get(device, "ok"),
            "fresh": entry.fresh,
            **{name: _number(values[row]) if entry.fresh else None for name, values in columns.items()},
            "facts": {name: _text(facts[name]) for name in FACTS[kind] if facts.get(name)},
        }


def _state(entry: Entry, row: int) -> str:
    code = entry.frame.value("state", row)
    return next((name for number, name in field(entry.frame.kind, "state").states if number == code), "unknown")


def _expected(entry: Entry, row: int) -> bool | None:
    value = entry.frame.value("expected", row)
    return None if value is None else bool(value)


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _holders(snapshot: Snapshot) -> dict[str, list[dict[str, Any]]]:
    """By GPU the jobs and pods that hold it or a part of it."""
    held: dict[str, list[dict[str, Any]]] = {}
    for entry in snapshot.of(device_job.KIND):
        for device in entry.frame.devices if entry.fresh else ():
            facts = snapshot.facts(device)
            told = {name: _text(facts[name]) for name in HOLDER if facts.get(name)}
            held.setdefault(facts.get("uuid", ""), []).append(told)
    return held


def _jobs(snapshot: Snapshot, said: Said, now_ns: int) -> Iterator[dict[str, Any]]:
    """Jobs that speak NCCL, those that do not run as they should first."""
    there = {
        device.id: entry.frame.value("processes", row)
        for entry in snapshot.of("job")
        if entry.fresh
        for row, device in enumerate(entry.frame.devices)
    }
    for stall in stalls(there, said.findings, now_ns):
        processes = there.get(stall.job)
        yield {
            "job": _text(stall.job),
            "state": stall.state,
            "stalled_seconds": stall.seconds,
            "verdicts": [_text(kind) for kind in stall.verdicts],
            "processes": None if processes is None else int(processes),
        }


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


def _text(value: str) -> str:
    """What is not a character (an undecodable byte of a file or log) becomes ``?``: JSON has no place for it."""
    return value.encode("utf-8", "replace").decode()


def _time(ns: int) -> str:
    return datetime.fromtimestamp(ns / 1e9, UTC).isoformat(timespec="seconds")
