"""The report: GPU-hours by cause, for whom and on what; failures and repairs by fault, part and
node; what repairs helped; what the scheduler accounts for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from history.economics.allocated import Allocated, by_account, by_end
from history.economics.evidence import CAUSES
from history.economics.gather import Accounting, Gathered
from history.economics.ledger import Ledger, by, ledger_of
from history.economics.reliability import (
    HOUR_MS,
    Lemon,
    Median,
    Mtbf,
    lemons,
    median_duration,
    mtbf,
)
from history.economics.repairs import Repair, repairs

OUT = ("down", "repair", "lost")  # a GPU that could not have worked
GROUPS = ("team", "model", "rack", "fault")
TELLING = ("page",)


@dataclass(frozen=True, slots=True)
class Reliability:
    """Failures per time in service, and the times of repairs. ``availability`` is that of a node,
    NaN of all else.
    """

    failures: Mtbf
    repairs: Median
    availability: float = float("nan")


@dataclass(frozen=True, slots=True)
class Report:
    """``hours`` by cause, ``allocated`` those of jobs; ``groups`` by team, model, rack and fault.

    ``reliability`` is by fault, ``parts`` by kind of device, ``by_node`` of nodes with a failure or
    repair, the least available first; hours in service are those of GPUs. ``accounts`` and ``ends``
    are the scheduler's own sums; ``notes`` what was asked and did not answer, and what
    is not known.
    """

    since: datetime
    until: datetime
    gpus: int
    nodes: int
    hours: Mapping[str, float]
    allocated: float
    groups: Mapping[str, Mapping[str, Mapping[str, float]]]
    availability: float
    target: float
    reliability: Mapping[str, Mtbf]
    repairs: Median
    parts: Mapping[str, Reliability]
    by_node: Mapping[str, Reliability]
    lemons: tuple[Lemon, ...]
    helped: Mapping[str, tuple[int, int]]
    accounts: Mapping[str, Allocated]
    ends: Mapping[str, Allocated]
    notes: tuple[str, ...]

    @property
    def total(self) -> float:
        """Wall time times GPUs, in hours."""
        return sum(self.hours.values())


def report(
    gathered: Gathered,
    since: datetime,
    until: datetime,
    target: float,
    accounting: Accounting | None = None,
) -> Report:
    """From the evidence of all nodes, and what schedulers account for."""
    accounting = accounting or Accounting()
    ledger: Ledger = Counter()
    for node in gathered.nodes:
        ledger.update(ledger_of(node))
    causes = by(ledger).get((), {})
    pages = [row for row in gathered.incidents if row["severity"] in TELLING]
    failures = Counter(str(row["fault"]) for row in pages)
    in_service, done = _in_service(causes), list(repairs(gathered.nodes))
    span = since.timestamp(), until.timestamp()
    return Report(
        since=since,
        until=until,
        gpus=sum(len(node.gpus) for node in gathered.nodes),
        nodes=len(gathered.nodes),
        hours={cause: causes.get(cause, 0) / HOUR_MS for cause in CAUSES},
        allocated=sum(ms for account, ms in ledger.items() if account.job) / HOUR_MS,
        groups={name: _group(ledger, name) for name in GROUPS},
        availability=_availability(causes),
        target=target,
        reliability={
            "all": mtbf(sum(failures.values()), in_service),
            **{fault: mtbf(count, in_service) for fault, count in failures.most_common()},
        },
        repairs=median_duration(one.took for one in done),
        parts=_parts(pages, done, in_service),
        by_node=_nodes(pages, done, ledger),
        lemons=tuple(_lemons(gathered, ledger)),
        helped=_helped(gathered),
        accounts=by_account(accounting.runs, *span),
        ends=by_end(accounting.runs, *span),
        notes=(*accounting.notes, *gathered.notes),
    )


def _in_service(causes: Mapping[str, int]) -> int:
    return sum(causes.values()) - causes.get("down", 0) - causes.get("repair", 0)


def _availability(causes: Mapping[str, int]) -> float:
    total = sum(causes.values())
    return 1 - sum(causes.get(cause, 0) for cause in OUT) / total if total else 0.0


def _parts(
    pages: Sequence[Mapping[str, Any]], done: Sequence[Repair], in_service: int
) -> dict[str, Reliability]:
    """By kind of device, the one that fails most first."""
    failures = Counter(str(row["device_kind"]) for row in pages)
    names = [name for name, _ in failures.most_common()]
    names += sorted({one.part for one in done} - set(names))
    return {
        name: Reliability(
            mtbf(failures[name], in_service),
            median_duration(one.took for one in done if one.part == name),
        )
        for name in names
    }


def _nodes(
    pages: Sequence[Mapping[str, Any]], done: Sequence[Repair], ledger: Ledger
) -> dict[str, Reliability]:
    failures = Counter(str(row["host"]) for row in pages)
    touched = {*failures, *(one.host for one in done)}
    found = {
        host: Reliability(
            mtbf(failures[host], _in_service(causes)),
            median_duration(one.took for one in done if one.host == host),
            _availability(causes),
        )
        for (host,), causes in by(ledger, "host").items()
        if host in touched
    }
    return dict(sorted(found.items(), key=lambda item: (item[1].availability, item[0])))


def _group(ledger: Ledger, name: str) -> dict[str, dict[str, float]]:
    rows = {
        key: {cause: ms / HOUR_MS for cause, ms in row.items()}
        for (key,), row in by(ledger, name).items()
    }
    return dict(sorted(rows.items(), key=lambda item: -sum(item[1].values())))


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
        "allocated_gpu_hours": one.allocated,
        "by": {
            name: {key: dict(row) for key, row in rows.items()} for name, rows in one.groups.items()
        },
        "availability": one.availability,
        "availability_target": one.target,
        "mtbf_gpu_hours": {name: _failures(found) for name, found in one.reliability.items()},
        "repair_hours": _durations(one.repairs),
        "by_part": {name: _reliability(found) for name, found in one.parts.items()},
        "by_node": {
            name: {**_reliability(found), "availability": found.availability}
            for name, found in one.by_node.items()
        },
        "lemons": [lemon._asdict() for lemon in one.lemons],
        "helped": {what: {"helped": a, "of": b} for what, (a, b) in one.helped.items()},
        "accounting": {
            "by_account": {name: found._asdict() for name, found in one.accounts.items()},
            "by_end": {name: found._asdict() for name, found in one.ends.items()},
        },
        "notes": list(one.notes),
    }


def _reliability(found: Reliability) -> dict[str, Any]:
    return {
        "mtbf_gpu_hours": _failures(found.failures),
        "repair_hours": _durations(found.repairs),
    }


def _durations(found: Median) -> dict[str, Any]:
    return {
        "count": found.of,
        "ended": found.ended,
        "median": _finite(found.estimate),
        "low": _finite(found.low),
        "high": _finite(found.high),
    }


def _failures(found: Mtbf) -> dict[str, Any]:
    return {
        "failures": found.failures,
        "estimate": _finite(found.estimate),
        "low": _finite(found.low),
        "high": _finite(found.high),
    }


def _finite(value: float) -> float | None:
    return value if value < float("inf") else None
