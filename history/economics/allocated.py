"""GPU time as Slurm accounts for it: by account, and by how the runs ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from history.economics.sacct import Run

HOUR_S = 3600.0


class Allocated(NamedTuple):
    """How many runs, and their GPU-hours within the time of the report."""

    runs: int
    gpu_hours: float


def by_account(runs: Iterable[Run], begin_s: float, end_s: float) -> dict[str, Allocated]:
    """The largest first."""
    return _by(runs, begin_s, end_s, lambda run: run.account or run.user)


def by_end(runs: Iterable[Run], begin_s: float, end_s: float) -> dict[str, Allocated]:
    """By state: COMPLETED, FAILED, TIMEOUT, NODE_FAIL, REQUEUED ...; the largest first."""
    return _by(runs, begin_s, end_s, lambda run: run.state)


def _by(
    runs: Iterable[Run], begin_s: float, end_s: float, key: Callable[[Run], str]
) -> dict[str, Allocated]:
    found: dict[str, Allocated] = {}
    for run in runs:
        hours = run.gpus * _seconds(run, begin_s, end_s) / HOUR_S
        if hours > 0:
            before = found.get(key(run), Allocated(0, 0.0))
            found[key(run)] = Allocated(before.runs + 1, before.gpu_hours + hours)
    return dict(sorted(found.items(), key=lambda item: -item[1].gpu_hours))


def _seconds(run: Run, begin_s: float, end_s: float) -> float:
    """Of a run within a span; one that has not ended lasts."""
    if run.begin_s is None:
        return 0.0
    return max(0.0, min(run.end_s or end_s, end_s) - max(run.begin_s, begin_s))
