"""Which hints there are, and how one is given to a process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
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


def give(who: Subscription, one: Mapping[str, Any]) -> dict[str, str]:
    """In a child that becomes the job's user first: by channel how it failed, "" where it did not.

    A signal of which nobody knows whether it was sent counts as sent: it is not repeated.
    """
    numbers = map(str, (who.user, who.group, who.pid, who.signal, who.port))
    argv = child.python("collector.hint.give", *numbers, who.file, json.dumps(one))
    done = child.run(argv, timeout_s=GIVE_S, cwd="/")
    words = done.stderr.decode(errors="replace").strip()[:300]
    why = "no answer in time" if done.timed_out else words or f"exit code {done.returncode}"
    said = dict(map(json.loads, done.stdout.decode(errors="replace").splitlines()))
    unknown = dict.fromkeys(who.channels, why)
    if done.timed_out and "signal" in who.channels and ("file" in said or not who.file):
        unknown["signal"] = ""
    return unknown | {name: str(said[name])[:300] for name in who.channels if name in said}


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
