"""The report: GPU-hours by cause, for whom and on what; reliability; what repairs helped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from history.economics.evidence import CAUSES, NodeEvidence, Span
from history.economics.gather import Gathered
from history.economics.ledger import Ledger, by, ledger_of
from history.economics.reliability import (
    HOUR_MS,
    Duration,
    Lemon,
    Mtbf,
    lemons,
    median_duration,
    mtbf,
)

OUT = ("down", "repair", "lost")  # a GPU that could not have worked
GROUPS = ("team", "model", "rack", "fault")
TELLING = ("page",)


@dataclass(frozen=True, slots=True)
class Report:
    """``hours`` by cause; ``groups`` the same by team, model, rack and fault."""

    since: datetime
    until: datetime
    gpus: int
    nodes: int
    hours: Mapping[str, float]
    groups: Mapping[str, Mapping[str, Mapping[str, float]]]
    availability: float
    target: float
    reliability: Mapping[str, Mtbf]
    repairs: int
    repair_hours: float
    lemons: tuple[Lemon, ...]
    helped: Mapping[str, tuple[int, int]]

    @property
    def total(self) -> float:
        """Wall time times GPUs, in hours."""
        return sum(self.hours.values())


def report(gathered: Gathered, since: datetime, until: datetime, target: float) -> Report:
    """From the evidence of all nodes."""
    ledger: Ledger = Counter()
    for node in gathered.nodes:
        ledger.update(ledger_of(node))
    causes = by(ledger).get((), {})
    total = sum(causes.values())
    out = sum(causes.get(cause, 0) for cause in OUT)
    failures = Counter(
        str(row["fault"]) for row in gathered.incidents if row["severity"] in TELLING
    )
    in_service = total - causes.get("down", 0) - causes.get("repair", 0)
    durations = list(_durations(gathered.nodes))
    return Report(
        since=since,
        until=until,
        gpus=sum(len(node.gpus) for node in gathered.nodes),
        nodes=len(gathered.nodes),
        hours={cause: causes.get(cause, 0) / HOUR_MS for cause in CAUSES},
        groups={name: _group(ledger, name) for name in GROUPS},
        availability=1 - out / total if total else 0.0,
        target=target,
        reliability={
            "all": mtbf(sum(failures.values()), in_service),
            **{fault: mtbf(count, in_service) for fault, count in failures.most_common()},
        },
        repairs=len(durations),
        repair_hours=median_duration(durations),
        lemons=tuple(_lemons(gathered, ledger)),
        helped=_helped(gathered),
    )


def _group(ledger: Ledger, name: str) -> dict[str, dict[str, float]]:
    rows = {
        key: {cause: ms / HOUR_MS for cause, ms in row.items()}
        for (key,), row in by(ledger, name).items()
    }
    return dict(sorted(rows.items(), key=lambda item: -sum(item[1].values())))


def _durations(nodes: Iterable[NodeEvidence]) -> Iterable[Duration]:
    for node in nodes:
        for span in _merged(span for span in node.spans if span.cause == "repair"):
            hours = (span.end_ms - span.begin_ms) / HOUR_MS
            yield Duration(hours, span.end_ms < node.end_ms)


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Repairs of one node that overlap are one."""
    found: list[Span] = []
    for span in sorted(spans, key=lambda one: one.begin_ms):
        if found and span.begin_ms <= found[-1].end_ms:
            end = max(found[-1].end_ms, span.end_ms)
            found[-1] = Span("repair", found[-1].begin_ms, end)
        else:
            found.append(span)
    return found


def _lemons(gathered: Gathered, ledger: Ledger) -> list[Lemon]:
    hours = {host: sum(row.values()) / HOUR_MS for (host,), row in by(ledger, "host").items()}
    failures = Counter(str(row["host"]) for row in gathered.incidents if row["severity"] in TELLING)
    return lemons(failures, hours)


def _helped(gathered: Gathered) -> dict[str, tuple[int, int]]:
    """How often each act helped against a class of fault: ``reset for ecc/contained``. A step that
    was reported twice counts once.
    """
    outcomes: dict[tuple[Any, ...], tuple[str, bool]] = {}
    tried: dict[tuple[Any, ...], str] = {}
    for event in gathered.steps:
        attributes = event.attributes
        key = (
            event.device,
            attributes.get("incident"),
            attributes.get("act"),
            attributes.get("attempt"),
        )
        what = f"{attributes.get('act')} for {attributes.get('fault')}"
        if attributes.get("act"):
            tried[key] = what
        if isinstance(attributes.get("helped"), bool):
            outcomes[key] = (what, bool(attributes["helped"]))
    of, good = (
        Counter(tried.values()),
        Counter(what for what, helped in outcomes.values() if helped),
    )
    return {what: (good[what], count) for what, count in of.items()}


def document(one: Report) -> dict[str, Any]:
    """As JSON; infinite is null."""
    return {
        "since": one.since.astimezone(UTC).isoformat(),
        "until": one.until.astimezone(UTC).isoformat(),
        "nodes": one.nodes,
        "gpus": one.gpus,
        "gpu_hours": dict(one.hours),
        "total_gpu_hours": one.total,
        "by": {
            name: {key: dict(row) for key, row in rows.items()} for name, rows in one.groups.items()
        },
        "availability": one.availability,
        "availability_target": one.target,
        "mtbf_gpu_hours": {
            name: {
                "failures": found.failures,
                "estimate": _finite(found.estimate),
                "low": _finite(found.low),
                "high": _finite(found.high),
            }
            for name, found in one.reliability.items()
        },
        "repairs": {"count": one.repairs, "median_hours": _finite(one.repair_hours)},
        "lemons": [lemon._asdict() for lemon in one.lemons],
        "helped": {what: {"helped": a, "of": b} for what, (a, b) in one.helped.items()},
    }


def _finite(value: float) -> float | None:
    return value if value < float("inf") else None
