"""Which detectors a result lets alert: what each finds alone at horizon node, how often it is wrong
there, and the decision by a stated rule.

A detector alerts where agents alone found, in time, the cases that are its own so often that the
exact lower 95 % bound is at least ``MIN_RECALL``, of at least ``CASES`` cases (those that another
detector reported in its place are not counted); and where in at
least ``MONTHS`` healthy GPU-months it gave no false page and its false tickets are at most
``MAX_TICKETS`` a GPU-month (exact upper 95 % bound). Nominal magnitude; worlds of the simulator.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from detectors import DETECTORS, PAGES
from evaluation.metrics.false_alarms import Exposure, FalseAlarm, rates
from evaluation.metrics.figures import share_of
from evaluation.metrics.match import Case
from evaluation.runs.run import OURS, alarm_from, case_from
from evaluation.runs.suite import CASES, HEALTHY_MONTHS, MAGNITUDES

MIN_RECALL = 0.9
MONTHS = HEALTHY_MONTHS
MAX_TICKETS = 0.02  # false ones a GPU-month: the design's budget
ALERTS, SHADOW, UNDECIDED, UNJUDGED = "alerts", "shadow mode", "undecided", "not judged here"
MORE_CASES, MORE_MONTHS = f"{CASES} cases", f"{MONTHS:g} healthy GPU-months"
BETTER = f"a lower bound of {MIN_RECALL}"
# Scenarios whose faults a detector is there to find as an agent alone; of a scenario with faults of
# several classes those of its own (``scored_as`` of its page). Where several detectors see the same
# fault, a case counts for each that reported it; one that nobody reported for all of them.
OWN: Mapping[str, tuple[str, ...]] = {
    "availability": ("F06", "F07"),
    "ecc": ("F01", "F02", "F03", "F04", "F05"),
    "fec_tail": ("F48",),
    "frozen": ("F29",),
    "host": ("F33", "F34", "F35", "F36", "F37", "F38", "F39", "F40", "F41", "F42"),
    "ib_adapter": ("F28",),
    "ib_ber": ("F19",),
    "ib_errors": ("F49",),
    "ib_flap": ("F20",),
    "ib_link": ("F23",),
    "ib_rail": ("F27",),
    "ib_saturation": ("F22",),
    "nvlink": ("F23",),
    "nvlink_fabric": ("F44",),
    "pcie": ("F18",),
    "power": ("F30",),
    "power_cap": ("F47",),
    "power_limit": ("F15",),
    "slow_node": ("F55",),
    "starvation": ("F80", "F81", "F82", "F83", "F84"),
    "straggler": ("F16",),
    "thermal_resistance": ("F10", "F11"),
    "throttle": ("F13", "F14"),
    "xid": ("F08", "F09", "F43"),
}


@dataclass(slots=True)
class _Found:
    """At horizon node: nominal cases by scenario, and false alarms of healthy runs."""

    cases: dict[str, list[Case]] = field(default_factory=lambda: defaultdict(list))
    alarms: list[FalseAlarm] = field(default_factory=list)
    healthy: Exposure = field(default_factory=Exposure)


def by_detector(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row per detector: its cases, recall, false pages and tickets with exact intervals, the
    decision and what is lacking. Of results of agents alone; without any no row.
    """
    found = _Found()
    for result in results:
        job = result["job"]
        for part in result["results"]:
            if (part["contestant"], part["scope"]) != (OURS, "node"):
                continue
            if result["kind"] == "healthy":
                found.alarms += map(alarm_from, part["false"])
                found.healthy += Exposure(part["gpu_s"], part["port_s"])
            elif job["magnitude"] == MAGNITUDES[0]:
                found.cases[job["scenario"]] += map(case_from, part["cases"])
    return [_row(name, found) for name in DETECTORS] if found.cases or found.alarms else []


def _row(name: str, found: _Found) -> dict[str, Any]:
    own = [
        case
        for scenario in OWN.get(name, ())
        for case in found.cases[scenario]
        if case.fault in PAGES[name].scored_as
    ]
    counted = [case for case in own if case.watched and not _left_to_others(case, name)]
    recall = share_of(_reported(case, name) for case in counted).document()
    false = rates([a for a in found.alarms if a.detector == name], found.healthy)
    row: dict[str, Any] = {
        "detector": name,
        "scenarios": list(OWN.get(name, ())),
        "recall": recall,
        "gpu_months": found.healthy.gpu_months,
        "false_pages": false["pages"]["of_all"],
        "false_tickets": false["tickets"]["of_all"],
    }
    if not row["scenarios"]:
        return row | {"decision": UNJUDGED, "lacking": []}
    lacking = list(_lacking(row))
    unknown = {MORE_CASES, MORE_MONTHS} | ({BETTER} if MORE_CASES in lacking else set())
    decision = (UNDECIDED if unknown.issuperset(lacking) else SHADOW) if lacking else ALERTS
    return row | {"decision": decision, "lacking": lacking}


def _reported(case: Case, detector: str) -> bool:
    """Whether it is this detector's evidence that was there in time."""
    return any(e.detector == detector and e.delay_s <= case.deadline_s for e in case.evidence)


def _left_to_others(case: Case, detector: str) -> bool:
    """Whether the fault was found in time without it: an XID where the kernel log can be read, the
    state of the GPU where it cannot.
    """
    return case.in_time and not _reported(case, detector)


def _lacking(row: Mapping[str, Any]) -> Iterator[str]:
    recall, pages, tickets = row["recall"], row["false_pages"], row["false_tickets"]
    if recall["of"] < CASES:
        yield MORE_CASES
    if recall["of"] and recall["low95"] < MIN_RECALL:
        yield BETTER
    if row["gpu_months"] < MONTHS:
        yield MORE_MONTHS
    if pages["count"]:
        yield "no false page"
    if row["gpu_months"] >= MONTHS and tickets["high95"] > MAX_TICKETS:
        yield f"at most {MAX_TICKETS} false tickets a GPU-month"
