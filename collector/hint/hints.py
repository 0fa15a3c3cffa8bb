"""Which hints are due: one for each incident that predicts a failure, process and horizon."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from collector.hint.subscription import Subscription
from collector.integrations.agent_client import Answer, Problem
from detectors.faults import FAULTS
from pipeline import child

GIVE_S = 10.0


def predicted(answer: Answer) -> Iterator[Problem]:
    """Incidents about GPUs that still work and will probably fail."""
    for problem in answer.problems:
        row = FAULTS.get(problem.fault)
        if row is not None and row.prediction and problem.kind == "gpu":
            yield problem


def hint(problem: Problem, now: float, horizon_s: float) -> dict[str, Any]:
    """What a job reads. ``probability`` is null: no share of these that failed is known yet."""
    return {
        "id": f"{problem.id}-{int(now // horizon_s)}",
        "at": round(now, 3),
        "gpu_uuid": problem.device,
        "reason": problem.fault,
        "probability": None,
        "horizon_s": horizon_s,
        "expires": round(now + horizon_s, 3),
    }


def due(
    hints: Iterable[Mapping[str, Any]], who: Subscription, given: Mapping[str, float], now: float
) -> Iterator[Mapping[str, Any]]:
    """Those that this process has not had, or not in this horizon."""
    for one in hints:
        if given.get(f"{who.pid} {one['gpu_uuid']} {one['reason']}", 0.0) <= now:
            yield one


def give(who: Subscription, one: Mapping[str, Any]) -> str:
    """In a child that becomes the job's user first; how it failed, empty where it did not."""
    numbers = map(str, (who.user, who.group, who.pid, who.signal, who.port))
    argv = child.python("collector.hint.give", *numbers, who.file, json.dumps(one))
    done = child.run(argv, timeout_s=GIVE_S, cwd="/")
    words = done.stderr.decode(errors="replace").strip()
    return "" if done.returncode == 0 else words[:300] or f"exit code {done.returncode}"


def processes_of(proc: Path, uuid: str) -> Iterator[int]:
    """Processes that have the GPU's device file open."""
    from collector.repair.holders import device_files  # noqa: PLC0415
    from collector.sources.nccl.discovery.devices import opened_minors  # noqa: PLC0415

    minor = device_files(proc, uuid).minor
    for folder in proc.glob("[0-9]*"):
        try:
            if minor in opened_minors(folder):
                yield int(folder.name)
        except OSError:
            continue
