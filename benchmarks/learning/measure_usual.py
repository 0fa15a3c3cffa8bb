"""What it is worth to learn what is usual again after a roll-out: false alarms, how long they last,
and which racks whose cooling fails, or GPUs that lose clock, just after it are found.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.learning.usual_ways import WAYS
from detectors.incidents import Incidents
from detectors.thermal.rack import ThermalRack
from evaluation.metrics.intervals import poisson_interval, share_interval
from evaluation.metrics.match import match
from evaluation.metrics.panel import Candidate, Panel, judge
from evaluation.runs.run import periods_of
from evaluation.runs.truths import plain_truths
from pipeline.clock import SECOND_NS
from pipeline.interfaces import Detector
from simulator.fleet import load_scenario, render
from simulator.fleet.scenario import Split

STEP_S = 60.0
RESAMPLES = 2_000
DAY_NS = 86_400 * SECOND_NS


@dataclass(frozen=True, slots=True)
class Result:
    """Of one way in one world: false alarms and the days that each lasted; faults, and those found
    in time, or ever.
    """

    way: str
    false_days: tuple[float, ...]
    faults: int
    in_time: int
    found: int


def results(
    scenario: str,
    seed: int,
    split: Split,
    names: Sequence[str] = tuple(WAYS),
    beside: Sequence[Callable[[], Detector]] = (),
) -> tuple[list[Result], float]:
    """Some ways over one world, which is rendered once, each with the detectors ``beside``;
    GPU-months.
    """
    loaded = load_scenario(scenario)
    magnitude = "range" if loaded.magnitude else None
    run = render(loaded, seed, magnitude=magnitude, split=split, step_s=STEP_S)
    ways = [_candidate(name, WAYS[name], beside) for name in names]
    until_ns = judge(run.observations(), ways, periods_of(run))
    made = []
    for way in ways:
        cases, stray = match(plain_truths(run), way.alerts, until_ns)
        lasted = {one.id: one for _, one in way.incidents}
        days = tuple(
            ((lasted[each.id].cleared_ns or until_ns) - lasted[each.id].opened_ns) / DAY_NS
            for each in stray
            if each.id in lasted
        )
        found = [case for case in cases if case.detected_s is not None]
        in_time = sum((case.detected_s or 0.0) <= case.deadline_s for case in found)
        made.append(Result(way.name, days, len(cases), in_time, len(found)))
    return made, run.gpu_seconds / (86_400 * 30.4375)


def cached(
    scenario: str,
    seed: int,
    folder: Path,
    names: Sequence[str] = tuple(WAYS),
    beside: Sequence[Callable[[], Detector]] = (),
) -> tuple[list[Result], float]:
    """Of a world of the split test, from its file where there is one."""
    path = folder / f"usual-{scenario}-{seed}.json"
    if not path.exists():
        write(path, *results(scenario, seed, "test", names, beside))
    document = json.loads(path.read_bytes())
    found = [Result(**{**row, "false_days": tuple(row["false_days"])}) for row in document["rows"]]
    return found, float(document["gpu_months"])


def write(path: Path, found: Sequence[Result], gpu_months: float) -> None:
    """A world as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"gpu_months": gpu_months, "rows": list(map(asdict, found))}
    path.write_text(json.dumps(document, allow_nan=False))


def _candidate(
    name: str, make: Callable[[], ThermalRack], beside: Sequence[Callable[[], Detector]]
) -> Candidate:
    every = (*beside, make)
    return Candidate(name, "fleet", Panel(lambda: [one() for one in every], "fleet", Incidents))


def rows(found: Sequence[Result], gpu_months: float) -> list[dict[str, Any]]:
    """A row for each way, over all worlds; intervals are exact, 95 %."""
    table = []
    plain = [one for one in found if one.way == next(iter(WAYS))]
    for way in dict.fromkeys(one.way for one in found):
        own = [one for one in found if one.way == way]
        days = [day for one in own for day in one.false_days]
        faults, in_time = sum(one.faults for one in own), sum(one.in_time for one in own)
        low, high = poisson_interval(len(days), gpu_months)
        shares = share_interval(in_time, faults)
        table.append(
            {
                "way": way,
                "worlds": len(own),
                "gpu_months": gpu_months,
                "false": len(days),
                "low95": low,
                "high95": high,
                "days_until_quiet": max(days, default=0.0),
                "faults": faults,
                "in_time": in_time,
                "found": sum(one.found for one in own),
                "more_in_time": _gain(
                    [o.in_time - p.in_time for o, p in zip(own, plain, strict=True)], faults
                ),
                "in_time_low95": shares[0],
                "in_time_high95": shares[1],
            }
        )
    return table


def _gain(more: Sequence[int], faults: int) -> list[float]:
    """Share of all faults, with a 95 % interval of worlds drawn again; each has as many faults."""
    values = np.array(more, dtype=float) * len(more) / max(faults, 1)
    drawn = np.random.default_rng(0).integers(len(values), size=(RESAMPLES, len(values)))
    return [float(values.mean()), *np.percentile(values[drawn].mean(axis=1), [2.5, 97.5]).tolist()]
