"""What coarser readings change: healthy life by how far apart its readings are, and runs that were
made at two steps, case by case.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from evaluation.metrics.false_alarms import Exposure, FalseAlarm, rates
from evaluation.metrics.match import Case
from evaluation.runs.cadence import STEP_S
from evaluation.runs.run import alarm_from, case_from

SAME = ("scenario", "magnitude", "seed", "split", "days", "nodes", "cases")


def by_cadence(results: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """``healthy``: exposure and false alarms of each candidate and scope by step; ``compared``: of
    each run made at two steps how many cases have one verdict, and those that do not.
    """
    return {"healthy": list(_healthy(results)), "compared": list(_compared(results))}


def _healthy(results: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    groups: dict[tuple[str, str, float], tuple[list[FalseAlarm], Exposure]] = {}
    for result in results:
        if result["kind"] != "healthy" or result["job"].get("compared"):
            continue
        for part in result["results"]:
            key = part["contestant"], part["scope"], _step_of(result)
            alarms, exposure = groups.get(key, ([], Exposure()))
            more = [alarm_from(alarm) for alarm in part["false"]]
            watched = exposure + Exposure(part["gpu_s"], part["port_s"])
            groups[key] = [*alarms, *more], watched
    for (who, scope, step_s), (alarms, exposure) in sorted(groups.items()):
        yield {"contestant": who, "scope": scope, "step_s": step_s} | rates(alarms, exposure)


def _compared(results: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    runs: dict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for result in results:
        runs[tuple(result["job"].get(name) for name in SAME)].append(result)
    for pair in runs.values():
        fine = next((one for one in pair if one["job"].get("compared")), None)
        coarse = next((one for one in pair if not one["job"].get("compared")), None)
        if fine is not None and coarse is not None:
            yield from _rows(fine, coarse)


def _rows(fine: Mapping[str, Any], coarse: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    parts = {(part["contestant"], part["scope"]): part for part in coarse["results"]}
    for part in fine["results"]:
        other = parts.get((part["contestant"], part["scope"]))
        if other is None:
            continue
        first, second = ({one["id"]: one for one in each["cases"]} for each in (part, other))
        differ = sorted(
            name
            for name in first.keys() | second.keys()
            if name not in first
            or name not in second
            or _verdict(case_from(first[name])) != _verdict(case_from(second[name]))
        )
        yield {
            "contestant": part["contestant"],
            "scope": part["scope"],
            "scenario": fine["job"]["scenario"],
            "step_s": [_step_of(fine), _step_of(coarse)],
            "cases": len(first.keys() | second.keys()),
            "differ": differ,
            "strays": [len(part["false"]), len(other["false"])],
        }


def _verdict(case: Case) -> tuple[Any, ...]:
    """What is said of a case: of which entity, whether in time, and how loudly."""
    return case.fault, case.entity, case.watched, case.in_time, case.top1, case.too_loud


def _step_of(result: Mapping[str, Any]) -> float:
    return float(result["job"].get("step_s", STEP_S))
