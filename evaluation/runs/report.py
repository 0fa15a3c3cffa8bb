"""Many results into one report: figures per scenario and magnitude, false alarms, curves, misses,
and a summary per scope.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from evaluation.metrics.classes import ANY, class_of
from evaluation.metrics.curve import operating_curve
from evaluation.metrics.false_alarms import Exposure, FalseAlarm, rate, rates
from evaluation.metrics.figures import figures, percentile, recall, share_of
from evaluation.metrics.match import Case
from evaluation.metrics.precision import precisions
from evaluation.metrics.scope import SCOPES, Scope
from evaluation.runs.run import OURS, SHIPPED, alarm_from, case_from

NOMINAL = "nominal"
SAME_RUNS = (
    "ours, same runs"  # ours once more, in those runs alone in which the baselines were asked too
)
OF_OURS = (OURS, SHIPPED, SAME_RUNS)
SEVERITIES = ("page", "ticket")  # those that alert
STRAGGLER, HANG = "F16", "F25"  # whose delays the acceptance names


@dataclass(slots=True)
class Group:
    """All results of one candidate in one scope."""

    cases: dict[tuple[str, str], list[Case]] = field(default_factory=lambda: defaultdict(list))
    alarms: list[FalseAlarm] = field(default_factory=list)
    healthy: dict[str, tuple[list[FalseAlarm], Exposure]] = field(default_factory=dict)
    strays: dict[tuple[str, str], list[FalseAlarm]] = field(
        default_factory=lambda: defaultdict(list)
    )
    watched: dict[tuple[str, str], Exposure] = field(default_factory=lambda: defaultdict(Exposure))
    exposure: Exposure = field(default_factory=Exposure)
    restarted: int = 0
    differences: list[str] = field(default_factory=list)
    forgetful: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Report:
    """Groups by (candidate, scope), and which scenarios need the complete fleet."""

    groups: Mapping[tuple[str, Scope], Group]
    needs_fleet: frozenset[str]

    def document(self) -> dict[str, Any]:
        """As JSON."""
        scopes = [
            scope
            for scope in SCOPES
            if (OURS, scope) in self.groups or not any(name == OURS for name, _ in self.groups)
        ]
        rows = {key: group for key, group in self.groups.items() if key[0] != SAME_RUNS}
        return {
            "summary": {scope: self._summary(scope) for scope in scopes},
            "scenarios": [
                row for key, group in rows.items() for row in _scenario_rows(*key, group)
            ],
            "healthy": [row for key, group in rows.items() for row in _healthy_rows(*key, group)],
            "curves": [
                row
                for key, group in self.groups.items()
                if key[0] != SHIPPED
                for row in _curves(*key, group)
            ],
            "misses": [
                row for key, group in rows.items() if key[0] == OURS for row in _misses(*key, group)
            ],
        }

    def _summary(self, scope: Scope) -> dict[str, Any]:
        """Figures of ours; baselines judge each device by itself, so theirs are
        the same in both scopes.

        They are compared in the same runs.
        """
        own = {
            name: self.figures_of(self.groups[name, scope], scope, signs=name == SAME_RUNS)
            for name in OF_OURS
            if (name, scope) in self.groups
        }
        theirs = {
            name: self.figures_of(group, scope, signs=True)
            for (name, _), group in self.groups.items()
            if name not in OF_OURS
        }
        made: dict[str, Any] = dict(own.get(OURS, {}))
        made |= {
            key: own[name]
            for key, name in (("as_shipped", SHIPPED), ("same_runs", SAME_RUNS))
            if name in own
        }
        made["baselines"] = theirs
        if OURS in own:
            made["better_baselines"] = list(_better(own.get(SAME_RUNS, own[OURS]), theirs))
        return made

    def figures_of(self, group: Group, scope: Scope, *, signs: bool = False) -> dict[str, Any]:
        """What the acceptance asks for, at nominal magnitude, of the faults that
        can be known in this scope.

        ``signs``: a fault that builds up counts as found in its class where its early signs were
        reported and open. Peers report an error and leave it open, so they are compared in this
        way, and ours with them.
        """
        known = {
            name: cases
            for (name, magnitude), cases in group.cases.items()
            if magnitude == NOMINAL and (scope == "fleet" or name not in self.needs_fleet)
        }
        every = [case for cases in known.values() for case in cases if case.watched]
        by_class = {
            fault: [case for case in every if case.fault == fault]
            for fault in sorted({case.fault for case in every})
        }
        false = rates(group.alarms, group.exposure)
        pages, tickets = (false[severity]["of_all"] for severity in ("pages", "tickets"))
        critical = recall(case for case in every if case.severity == "page")
        top1 = share_of(case.top1 for case in every if case.in_time)
        return {
            "healthy_gpu_months": group.exposure.gpu_months,
            "false_pages": sum(alarm.severity == "page" for alarm in group.alarms),
            "false_pages_per_gpu_month": pages,
            "false_tickets_per_gpu_month": tickets["rate"],
            "false_alarms": false,
            "recall_critical": critical.value,
            "intervals": {
                "recall_critical": critical.document(),
                "attribution_top1": top1.document(),
            },
            "recall_by_class": {
                fault: recall(cases, signs=signs).document() for fault, cases in by_class.items()
            },
            "false_alarms_by_class": {fault: _false_of(fault, group) for fault in by_class},
            "attribution_top1": top1.value,
            "straggler_delay_p90_s": _delay(known.get(STRAGGLER, ()), 0.9),
            "hang_delay_p99_s": _delay(known.get(HANG, ()), 0.99),
            "delay_by_class": {
                fault: {
                    name: _delay(cases, p)
                    for name, p in (("p50_s", 0.5), ("p90_s", 0.9), ("p99_s", 0.99))
                }
                for fault, cases in by_class.items()
            },
            "precision": precisions(
                {
                    name: share
                    for name, cases in known.items()
                    if (share := recall(cases).value) is not None
                },
                pages["rate"] or 0.0,
                pages["high95"] or inf,
            ),
            "restart_equivalent": None
            if not group.restarted
            else not group.differences and not group.forgetful,
            "restarts": {
                "runs": group.restarted,
                "differences": group.differences[:20],
                "forgetful": sorted(group.forgetful),
            },
        }


def _false_of(fault: str, group: Group) -> dict[str, Any]:
    """Pages and tickets of a class together, per GPU-month; what claims no
    class may be meant for any.
    """
    return rate(
        [alarm for alarm in group.alarms if class_of(alarm.fault) in (fault, ANY)],
        group.exposure.gpu_months,
    )


def _better(
    ours: Mapping[str, Any], baselines: Mapping[str, Mapping[str, Any]]
) -> Iterator[dict[str, str]]:
    """Classes in which a baseline finds more and is wrong less often."""
    for fault, found in ours["recall_by_class"].items():
        for name, theirs in baselines.items():
            share, false = (
                theirs["recall_by_class"].get(fault, {}).get("value"),
                theirs["false_alarms_by_class"].get(fault, {}).get("rate"),
            )
            wrong = ours["false_alarms_by_class"][fault]["rate"]
            if (
                None not in (share, false, found["value"], wrong)
                and share > found["value"]
                and false < wrong
            ):
                yield {"class": fault, "baseline": name}


def report_of(results: Sequence[Mapping[str, Any]]) -> Report:
    """Gather results as ``run_job`` gave them."""
    shared = {
        _run_of(result)
        for result in results
        if any(part["contestant"] not in OF_OURS for part in result["results"])
    }
    groups: dict[tuple[str, Scope], Group] = defaultdict(Group)
    needs_fleet = set()
    for result in results:
        job = result["job"]
        if result["needs"] == "fleet":
            needs_fleet.add(job["scenario"])
        for part in result["results"]:
            _add(
                groups[part["contestant"], part["scope"]],
                job,
                part,
                healthy=result["kind"] == "healthy",
            )
            if part["contestant"] == OURS and _run_of(result) in shared:
                _add(
                    groups[SAME_RUNS, part["scope"]], job, part, healthy=result["kind"] == "healthy"
                )
    return Report(dict(sorted(groups.items())), frozenset(needs_fleet))


def _run_of(result: Mapping[str, Any]) -> tuple[Any, ...]:
    """What makes two runs the same frames."""
    return tuple(
        result["job"].get(name)
        for name in ("scenario", "magnitude", "seed", "split", "days", "nodes", "cases")
    )


def _add(group: Group, job: Mapping[str, Any], part: Mapping[str, Any], *, healthy: bool) -> None:
    key, exposure = (job["scenario"], job["magnitude"]), Exposure(part["gpu_s"], part["port_s"])
    alarms = [alarm_from(alarm) for alarm in part["false"]]
    if healthy:
        before, watched = group.healthy.get(job["scenario"], ([], Exposure()))
        group.healthy[job["scenario"]] = ([*before, *alarms], watched + exposure)
        group.alarms += alarms
        group.exposure += exposure
    else:
        group.cases[key] += [case_from(case) for case in part["cases"]]
        group.strays[key] += alarms
        group.watched[key] += exposure
    if part["restarted"]:
        group.restarted += 1
        group.differences += [
            f"{job['scenario']} seed {job['seed']}: {text}" for text in part["differences"]
        ]
        group.forgetful |= set(part["forgetful"])


def _delay(cases: Sequence[Case], p: float) -> float | None:
    watched = [case for case in cases if case.watched]
    return percentile(
        [
            case.detected_s if case.in_time and case.detected_s is not None else inf
            for case in watched
        ],
        p,
    )


def _scenario_rows(name: str, scope: Scope, group: Group) -> list[dict[str, Any]]:
    return [
        {
            "contestant": name,
            "scope": scope,
            "scenario": scenario,
            "magnitude": magnitude,
            "faults": sorted({case.fault for case in cases}),
        }
        | figures(cases)
        | {"gpu_months": group.watched[scenario, magnitude].gpu_months}
        | {
            f"stray_{severity}s": sum(
                a.severity == severity for a in group.strays[scenario, magnitude]
            )
            for severity in SEVERITIES
        }
        for (scenario, magnitude), cases in sorted(group.cases.items())
    ]


def _healthy_rows(name: str, scope: Scope, group: Group) -> list[dict[str, Any]]:
    return [
        {"contestant": name, "scope": scope, "scenario": scenario} | rates(alarms, exposure)
        for scenario, (alarms, exposure) in sorted(group.healthy.items())
    ]


def _curves(name: str, scope: Scope, group: Group) -> list[dict[str, Any]]:
    """Per class of fault: recall that each budget buys, over all nominal cases of the class."""
    by_class: dict[str, list[Case]] = defaultdict(list)
    for (_, magnitude), cases in group.cases.items():
        for case in [case for case in cases if case.watched] if magnitude == NOMINAL else ():
            by_class[case.fault].append(case)
    return [
        {
            "contestant": name,
            "scope": scope,
            "class": fault,
            "points": operating_curve(
                cases,
                [a for a in group.alarms if class_of(a.fault) in (fault, ANY)],
                group.exposure.gpu_months,
            ),
        }
        for fault, cases in sorted(by_class.items())
    ]


def _misses(name: str, scope: Scope, group: Group) -> list[dict[str, Any]]:
    """Every case that was watched to its deadline and not found by then, with the reason."""
    return [
        {
            "contestant": name,
            "scope": scope,
            "scenario": scenario,
            "magnitude": magnitude,
            "case": case.id,
            "entity": case.entity,
            "detected_s": case.detected_s,
            "deadline_s": case.deadline_s,
            "cause": _cause(case),
        }
        for (scenario, magnitude), cases in sorted(group.cases.items())
        for case in cases
        if case.watched and not case.in_time
    ]


def _cause(case: Case) -> str:
    if case.detected_s is not None:
        return f"late by {case.detected_s - case.deadline_s:.0f} s"
    if case.within:
        return "merged into another incident"
    if case.before:
        return "already open before the fault"
    if case.signed:
        return "its early signs only"
    if case.misplaced:
        return "wrong device"
    if case.misnamed:
        return "wrong class"
    if case.secondaries:
        return "its symptoms only"
    return "no finding, or severity too low"
