"""Phases of a job from what its GPUs did each minute: load, steps, pauses, stalls.

From outside a checkpoint, an evaluation and a wait for data look alike for minutes: they are one
phase, a pause. Only what lasts longer than any usual pause is a stall.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from statistics import median
from typing import Literal, NamedTuple

from pipeline.clock import SECOND_NS
from pipeline.store.query.job_minutes import Minute

Kind = Literal["load", "steps", "pause", "stall", "unobserved"]
MINUTE_NS = 60 * SECOND_NS
BUSY = 0.5  # utilization: kernels run half of the time
WORKING = 0.5  # of the job's own usual activity: below it ranks spin in a collective
# Saves take seconds to minutes, evaluations up to ten; PyTorch ends a collective after 10.
MAX_PAUSE = 10  # minutes
MAX_LAST = 2  # minutes without a step at the end of a run that are no stall yet


class Phase(NamedTuple):
    """From begin to end in unix ns; ``activity`` is the mean over it, 1 is the job's usual."""

    kind: Kind
    begin_ns: int
    end_ns: int
    activity: float = 0.0


def activities(minutes: Sequence[Minute]) -> list[float]:
    """Activity of each minute, 1 the job's own usual: tensor cores where they are measured, else
    power, else utilization. What ranks compute; a rank that spins uses less of all but the last.

    >>> activities([Minute(0, 8, 1.0, 0.4, 0.9), Minute(60, 8, 1.0, 0.1, 0.5)])
    [1.0, 0.25]
    """
    raw = [_activity(minute) for minute in minutes]
    busy = sorted(
        (value for value, minute in zip(raw, minutes, strict=True) if _busy(minute)), reverse=True
    )
    usual = median(busy[: max(1, len(busy) // 2)]) if busy else 0.0
    return [value / usual if usual else 0.0 for value in raw]


def phases(minutes: Sequence[Minute], begin_ns: int, end_ns: int, *, over: bool) -> list[Phase]:
    """Phases of a run from its begin to its end, without gaps; ``over``: it has ended."""
    values = activities(minutes)
    working = [
        _busy(minute) and value >= WORKING for minute, value in zip(minutes, values, strict=True)
    ]
    kinds = _kinds(working, over=over)
    rows = [
        (m.begin_ns, kind, value) for m, kind, value in zip(minutes, kinds, values, strict=True)
    ]
    found: list[Phase] = []
    for kind, group in groupby(_filled(rows, begin_ns, end_ns), key=lambda row: row[1]):
        part = list(group)
        first, last = max(part[0][0], begin_ns), min(part[-1][0] + MINUTE_NS, end_ns)
        if last > first:
            found.append(Phase(kind, first, last, sum(row[2] for row in part) / len(part)))
    return found


def _kinds(working: Sequence[bool], *, over: bool) -> list[Kind]:
    first = next((i for i, works in enumerate(working) if works), len(working))
    kinds: list[Kind] = ["load"] * first
    for works, group in groupby(working[first:]):
        length = len(list(group))
        last = over and len(kinds) + length == len(working)
        limit = MAX_LAST if last else MAX_PAUSE
        kind: Kind = "steps" if works else "pause" if length <= limit else "stall"
        kinds += [kind] * length
    return kinds


def _filled(
    rows: Sequence[tuple[int, Kind, float]], begin_ns: int, end_ns: int
) -> list[tuple[int, Kind, float]]:
    """Every minute of the run; what nobody read is unobserved."""
    known = {row[0]: row for row in rows}
    return [
        known.get(at, (at, "unobserved", 0.0))
        for at in range(begin_ns // MINUTE_NS * MINUTE_NS, end_ns, MINUTE_NS)
    ]


def _busy(minute: Minute) -> bool:
    return (minute.utilization or 0.0) >= BUSY


def _activity(minute: Minute) -> float:
    for value in (minute.tensor, minute.power, minute.utilization):
        if value is not None:
            return value
    return 0.0
