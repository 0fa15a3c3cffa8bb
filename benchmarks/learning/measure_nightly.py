"""What the nightly list is worth: how many of its ten are really ill, and how long before anybody
would have been reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.learning.quarters import quarters
from evaluation.metrics.intervals import share_interval
from evaluation.runs.run import scaled
from history.learning.gpu_days import Floats, Quarters, gpu_days
from history.learning.nightly import LENGTH, WAYS, nightly
from pipeline.clock import SECOND_NS
from pipeline.frame import Device
from simulator.fleet import Truth, load_scenario, render

FIRST_NIGHT = 2  # days until a GPU has days before
WEEK = 7.0
DAY_NS = 86_400 * SECOND_NS
NIGHTS = 6  # of a world that are looked at, the last among them: a fit for each takes a while
# Faults of other parts: the list is of GPUs.
NOT_OF_GPUS = frozenset({"observability"})


@dataclass(frozen=True, slots=True)
class Fleet:
    """A world: ``magnitude`` is nominal, range or a value; ``step_s``: between readings."""

    name: str
    seed: int
    days: float
    cases: int
    magnitude: str | float = "nominal"
    step_s: float = 120.0
    nodes: int = 16


@dataclass(frozen=True, slots=True)
class Ill:
    """A fault as days since the start: when it begins, when it is due at the latest; rows of its
    GPUs.
    """

    since: float
    due: float
    rows: frozenset[int]


@dataclass(frozen=True, slots=True)
class Watched:
    """A fleet's numbers (day, GPU, NUMBERS) and what is really ill."""

    numbers: Floats
    models: NDArray[np.intp]
    nodes: NDArray[np.intp]
    ill: tuple[Ill, ...]


def watched(fleet: Fleet) -> Watched:
    """A fleet of the split test. ValueError as from render."""
    scenario = scaled(load_scenario(fleet.name), fleet.nodes, fleet.cases)
    run = render(
        scenario,
        fleet.seed,
        magnitude=fleet.magnitude,
        split="test",
        step_s=fleet.step_s,
        days=fleet.days,
        nodes=fleet.nodes,
    )
    found = quarters(run.observations(), run.topology.begin_ns, run.seconds, run.step_s)
    codes = [
        np.unique(np.array(names), return_inverse=True)[1] for names in (found.models, found.hosts)
    ]
    ill = tuple(_ill(run.truth, found, run.topology.begin_ns))
    return Watched(gpu_days(found), codes[0], codes[1], ill)


def _ill(truths: Sequence[Truth], found: Quarters, begin_ns: int) -> Iterator[Ill]:
    row = {gpu: number for number, gpu in enumerate(found.gpus)}
    lemons = {truth.id for truth in truths if truth.fault == "lemon"}
    for truth in truths:
        if truth.fault in NOT_OF_GPUS or not isinstance(truth.entity, Device):
            continue
        if truth.id.rpartition("/")[0] in lemons:
            continue  # one of its small faults: the lemon counts, once
        devices = (truth.entity, *truth.members)
        rows = frozenset(row[device.id] for device in devices if device.id in row)
        due_ns = truth.onset_ns + round(truth.detect_by_s * SECOND_NS)
        yield Ill((truth.onset_ns - begin_ns) / DAY_NS, (due_ns - begin_ns) / DAY_NS, rows)


def rows_of(name: str, fleets: Mapping[str, Watched]) -> list[dict[str, Any]]:
    """A row for each way to rank, over some fleets of a scenario."""
    return [_row(name, way, fleets) for way in WAYS]


def _row(name: str, way: str, fleets: Mapping[str, Watched]) -> dict[str, Any]:
    hits = of = early_hits = early_of = best = 0
    leads: list[float] = []
    found = ill = 0
    for fleet in fleets.values():
        days = len(fleet.numbers)
        nights = sorted({*range(days - 1, FIRST_NIGHT - 1, -max(1, days // NIGHTS))})
        first: dict[int, int] = {}
        for night in nights:
            listed = nightly(fleet.numbers[: night + 1], fleet.models, fleet.nodes, way)
            rows = {one.row for one in listed}
            now = [one for one in fleet.ill if one.since < night + 1]
            sick = frozenset().union(*(one.rows for one in now)) if now else frozenset()
            for number, one in enumerate(fleet.ill):
                if one in now and rows & one.rows:
                    first.setdefault(number, night)
            week = [one for one in now if one.due >= night + 1 + WEEK]
            ahead = frozenset().union(*(one.rows for one in week)) if week else frozenset()
            if len(ahead) >= LENGTH:
                early_hits, early_of = early_hits + len(rows & sick), early_of + LENGTH
            if night == nights[-1]:
                hits, of = hits + len(rows & sick), of + LENGTH
                best += min(LENGTH, len(sick))
        ill += len(fleet.ill)
        found += len(first)
        leads += [fleet.ill[number].due - (night + 1) for number, night in first.items()]
    low, high = share_interval(hits, of)
    return {
        "scenario": name,
        "way": way,
        "fleets": len(fleets),
        "last_night": {"hits": hits, "of": of, "best": best, "low95": low, "high95": high},
        "week_before": {
            "hits": early_hits,
            "of": early_of,
            "low95": share_interval(early_hits, early_of)[0],
            "high95": share_interval(early_hits, early_of)[1],
        },
        "faults": {"listed": found, "of": ill},
        "lead_days": median(leads) if leads else None,
    }
