"""GPU-hours of a run by cause: every GPU-second has exactly one, so that they add up to the wall
time of the run times its GPUs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from collector.job_page.ending import Ending
from collector.job_page.phases import Phase

HOUR_NS = 3600 * 10**9
CAUSES = {
    "load": "start-up",
    "steps": "steps",
    "pause": "pauses (checkpoint, evaluation)",
    "stall": "stalled",
    "unobserved": "not observed",
}
LOST = "steps lost since the last pause"


def losses(phases: Sequence[Phase], gpus: int, ending: Ending) -> dict[str, float]:
    """GPU-hours by cause. Where a fault ended the run, its steps since the last pause are lost: a
    pause is where a checkpoint can have been saved; without one all are.
    """
    hours: defaultdict[str, float] = defaultdict(float)
    last_pause = max((one.end_ns for one in phases if one.kind == "pause"), default=0)
    for one in phases:
        lost = ending.by_fault and one.kind == "steps" and one.begin_ns >= last_pause
        cause = LOST if lost else CAUSES[one.kind]
        hours[cause] += (one.end_ns - one.begin_ns) / HOUR_NS * gpus
    return dict(hours)
