"""The node at one instant as a plain document: what /api/v1/status answers
and the status page shows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any

from collector.config.links import Links
from collector.node.out_of_service import Out
from collector.web.agent_parts import parts, sources
from collector.web.columns import NOW
from collector.web.incident_rows import Scene, finding_row, open_rows, past_rows, time
from collector.web.verdict import verdict
from pipeline.catalog import device_job, field
from pipeline.documents import printable
from pipeline.exposition import Entry, Snapshot, stalls
from pipeline.finding import Finding, Incident
from pipeline.frame import Device
from pipeline.past_incidents import PastIncidents
from pipeline.selfmetrics import SelfMetrics


@dataclass(frozen=True, slots=True)
class Conclusions:
    """The agent's conclusions: open findings, open incidents, the health of devices, and what is
    out of service.

    ``current`` are the open findings as their detectors see them now, by id; ``past`` is what is
    over.
    """

    findings: Sequence[Finding] = ()
    incidents: Sequence[Incident] = ()
    health: Mapping[Device, str] = dataclass_field(default_factory=dict)
    out: Sequence[Out] = ()
    current: Mapping[str, Finding] = dataclass_field(default_factory=dict)
    past: PastIncidents = dataclass_field(default_factory=PastIncidents)


@dataclass(frozen=True, slots=True)
class Node:
    """The node that this agent runs on.

    ``simulated`` names the profile of a simulated node, empty on real hardware.
    """

    host: str
    version: str
    simulated: str = ""


# Slow facts that help to find a part: in a rack, in a ticket, in an RMA.
FACTS = {
    "gpu": ("pci_bus_id", "serial", "module", "numa_node", "vbios", "driver_version"),
    "ib_port": ("pci_bus_id", "net_device", "link_layer", "numa_node", "firmware", "node_guid"),
}

NO_LINKS = Links()
HOLDER = ("scheduler", *device_job.IDENTITY, "user", "job_name", "gpu_instance")


def status(
    node: Node,
    snapshot: Snapshot,
    concluded: Conclusions,
    metrics: SelfMetrics,
    *,
    now_ns: int,
    unready: str,
    links: Links = NO_LINKS,
) -> dict[str, Any]:
    """The complete document.

    Values in base units; null = not observed; a device of a silent source is ``fresh: false``.
    """
    gpus = _gpus(snapshot, concluded)
    scene = scene_of(snapshot, concluded, links, gpus)
    document: dict[str, Any] = {
        "host": node.host,
        "version": node.version,
        "simulated": node.simulated or None,
        "time": time(now_ns),
        "ready": not unready,
        "unready_reason": unready or None,
        "gpus": gpus,
        "ports": [
            row | {"expected": _expected(entry, number)}
            for entry in snapshot.of("ib_port")
            for number, row in enumerate(_devices(entry, snapshot, "device", concluded.health))
        ],
        "jobs": list(_jobs(snapshot, concluded, now_ns)),
        "incidents": open_rows(concluded.incidents, scene),
        "closed": past_rows(concluded.past.incidents(now_ns), scene),
        "maintenance": [_out(out) for out in concluded.out],
        "findings": [
            finding_row(finding, concluded.current.get(finding.id), scene.unread)
            for finding in concluded.findings
        ],
        "sources": list(sources(metrics, now_ns)),
        "agent": list(parts(metrics, now_ns, [gpu["state"] for gpu in gpus])),
    }
    return document | {"verdict": verdict(document)}


def scene_of(
    snapshot: Snapshot,
    concluded: Conclusions,
    links: Links,
    gpus: Sequence[Mapping[str, Any]] | None = None,
) -> Scene:
    """What the rows of incidents are made from."""
    return Scene(
        snapshot,
        {finding.id: finding for finding in concluded.findings},
        concluded.current,
        concluded.past,
        _gpus(snapshot, concluded) if gpus is None else gpus,
        [
            device.id
            for entry in snapshot.of("job")
            if entry.fresh
            for device in entry.frame.devices
        ],
        frozenset(
            printable(device.id)
            for kind in FACTS
            for entry in snapshot.of(kind)
            if not entry.fresh
            for device in entry.frame.devices
        ),
        links,
    )


def _gpus(snapshot: Snapshot, concluded: Conclusions) -> list[dict[str, Any]]:
    """Rows of GPUs, each with the jobs and pods that hold it."""
    holders = _holders(snapshot)
    return [
        row | {"held_by": holders.get(row["id"], [])}
        for entry in snapshot.of("gpu")
        for row in _devices(entry, snapshot, "name", concluded.health)
    ]


def _out(out: Out) -> dict[str, Any]:
    return {
        "kind": out.kind,
        "device": printable(out.id),
        "since": time(out.since_ns),
        "until": time(out.until_ns) if out.until_ns else None,
        "reason": printable(out.reason),
        "user": printable(out.user),
    }


def _devices(
    entry: Entry, snapshot: Snapshot, title: str, health: Mapping[Device, str]
) -> Iterator[dict[str, Any]]:
    kind = entry.frame.kind
    columns = {column.name: column.read(entry.frame) for column in NOW[kind]}
    for row, device in enumerate(entry.frame.devices):
        facts = snapshot.facts(device)
        yield {
            "id": printable(device.id),
            "index": printable(facts.get("index") or facts.get("port") or ""),
            "name": printable(facts.get(title) or device.id),
            "state": _state(entry, row),
            "health": health.get(device, "ok"),
            "fresh": entry.fresh,
            **{
                name: _number(values[row]) if entry.fresh else None
                for name, values in columns.items()
            },
            "facts": {name: printable(facts[name]) for name in FACTS[kind] if facts.get(name)},
        }


def _state(entry: Entry, row: int) -> str:
    code = entry.frame.value("state", row)
    return next(
        (name for number, name in field(entry.frame.kind, "state").states if number == code),
        "unknown",
    )


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
            held_by = {name: printable(facts[name]) for name in HOLDER if facts.get(name)}
            held.setdefault(facts.get("uuid", ""), []).append(held_by)
    return held


def _jobs(snapshot: Snapshot, concluded: Conclusions, now_ns: int) -> Iterator[dict[str, Any]]:
    """NCCL jobs, those with a problem first."""
    processes_of = {
        device.id: entry.frame.value("processes", row)
        for entry in snapshot.of("job")
        if entry.fresh
        for row, device in enumerate(entry.frame.devices)
    }
    for stall in stalls(processes_of, concluded.findings, now_ns):
        processes = processes_of.get(stall.job)
        yield {
            "job": printable(stall.job),
            "state": stall.state,
            "stalled_seconds": stall.seconds,
            "verdicts": [printable(kind) for kind in stall.verdicts],
            "processes": None if processes is None else int(processes),
        }
