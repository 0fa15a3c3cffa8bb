"""Stalls by how long the job's checkpoints take: a pause of a checkpoint and a stall look alike
until it should be over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from math import ceil
from typing import Any

from evaluation.independent import WORLDS
from evaluation.metrics.figures import figures
from evaluation.metrics.match import Case
from evaluation.runs.run import Job, case_from, rendered
from pipeline.frame import Device
from simulator.fleet import Run, Truth

STALL = "hang"
CHECKPOINT_S = 60.0  # the width of a stratum


def by_checkpoint(results: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row per candidate, scope, scenario of stalls, magnitude and length of checkpoints, with
    all figures of its cases.
    """
    groups: dict[tuple[str, str, str, str, float], list[Case]] = defaultdict(list)
    for result in results:
        lengths = dict(_checkpoints(result))
        for part in result["results"] if lengths else ():
            for case in map(case_from, part["cases"]):
                longest = ceil(lengths[case.id] / CHECKPOINT_S) * CHECKPOINT_S
                run = result["job"]["scenario"], result["job"]["magnitude"]
                groups[part["contestant"], part["scope"], *run, longest].append(case)
    return [
        {"contestant": who, "scope": scope, "scenario": scenario, "magnitude": magnitude}
        | {"checkpoint_s_at_most": longest}
        | figures(cases)
        for (who, scope, scenario, magnitude, longest), cases in sorted(groups.items())
    ]


def _checkpoints(result: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Seconds that a checkpoint takes in the job that each stall struck; the run is planned
    again, which its seed decides. Worlds of other authors do not say.
    """
    if result["job"]["scenario"] in WORLDS:
        return
    if not any(case["fault"] == STALL for part in result["results"] for case in part["cases"]):
        return
    run = rendered(Job(**result["job"]))
    for truth in run.truth:
        if truth.fault == STALL:
            yield truth.id, _checkpoint(run, truth)


def _checkpoint(run: Run, truth: Truth) -> float:
    """Longer jobs of the same host may follow: the one that held it when the stall
    began. 0 where none did.
    """
    host = next(
        (device.host for device in (truth.entity, *truth.members) if isinstance(device, Device)),
        None,
    )
    job = run.topology.job_at(host, truth.onset_ns) if host else None
    return job.work.checkpoint_s if job is not None else 0.0
