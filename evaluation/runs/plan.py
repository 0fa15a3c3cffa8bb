"""Which jobs a suite is made of, and whether a result that lies there is still theirs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evaluation.metrics.scope import Scope
from evaluation.runs.run import OURS, Job, Split
from evaluation.runs.scenarios import scenario as scenario_of


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for.

    ``magnitudes`` beyond nominal apply to scenarios that have a swept parameter;
    ``sweep`` means all its values.
    """

    split: Split
    scenarios: tuple[str, ...]
    magnitudes: tuple[str, ...]
    seeds: tuple[int, ...]
    scopes: tuple[Scope, ...]
    ours: bool
    baselines: tuple[str, ...]
    days: float | None = None
    nodes: int | None = None


def jobs_of(wanted: Wanted) -> list[Job]:
    """All jobs, the first seed of all scenarios first. ValueError for an unknown scenario.

    Ours are restarted half-way in the nominal runs. Baselines judge each device by itself: they
    are run once, over the complete fleet.
    """
    candidates: tuple[tuple[str, Scope], ...] = (
        *((OURS, scope) for scope in wanted.scopes if wanted.ours),
        *((name, "fleet") for name in wanted.baselines),
    )
    return [
        Job(
            scenario=scenario,
            magnitude=magnitude,
            seed=seed,
            split=wanted.split,
            contestants=candidates,
            restart=magnitude == "nominal" and wanted.ours,
            days=wanted.days,
            nodes=wanted.nodes,
        )
        for seed in wanted.seeds
        for scenario in wanted.scenarios
        for magnitude in _magnitudes(scenario, wanted.magnitudes)
    ]


def _magnitudes(scenario: str, asked: Sequence[str]) -> Iterator[str]:
    swept = scenario_of(scenario).swept
    for magnitude in asked:
        if magnitude == "nominal":
            yield magnitude
        elif swept is not None and magnitude == "sweep":
            yield from (f"{value:g}" for value in swept.sweep if value != swept.nominal)
        elif swept is not None:
            yield magnitude


def still_good(folder: Path, job: Job, code: str) -> bool:
    """Whether the result of a job lies in a folder, made by the same code for the same question."""
    path = folder / f"{job.name}.json"
    try:
        result: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return result.get("code") == code and result.get("job") == json.loads(json.dumps(asdict(job)))


def results_of(folder: Path, jobs: Sequence[Job]) -> Iterator[Mapping[str, Any]]:
    """The results of these jobs that are there, one in memory at a time."""
    for job in jobs:
        path = folder / f"{job.name}.json"
        if path.is_file():
            yield json.loads(path.read_text(encoding="utf-8"))
