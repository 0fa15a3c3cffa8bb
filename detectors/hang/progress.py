"""How fast each job goes, as a share of its own usual speed: a job that crawls never stops, so no
pause shows it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detectors.hang.activity import BUSY
from detectors.hang.counts import Counts
from detectors.hang.members import Members
from detectors.hang.pauses import ALONE, CRAWLS, learnt, report_after
from detectors.hang.stages import STEADY, STEADY_AFTER_S
from detectors.kit.block_clock import Seconds
from detectors.kit.columns import Columns
from pipeline.small_arrays import any_true

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

PACE_S = 3600.0  # time constant of what is usual
MEAN_S = 120.0  # and of the speed now: several steps of most jobs
# of its usual speed: below it a job crawls, above it it works again
CRAWL, WELL = 0.15, 0.5
STANDS = 0.005  # below it nothing is computed at all, whatever its power: that is no crawl
STEP_S = 300.0  # a job that crawls computes at least once in so long, or it does not compute at all
CLIP = 1.5  # of one GPU's usual pace


class Progress:
    """Speed of jobs, from what their GPUs show best: tensor activity, else bytes over NVLink, else
    power above idle.

    Needs the columns of ``fills``; ``pace`` is what is usual for a row.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    @staticmethod
    def fills() -> dict[str, float]:
        """The columns it needs."""
        return {"pace": np.nan, "pace_s": 0.0}

    def look(
        self,
        members: Members,
        shown: Floats,
        does: NDArray[np.int64],
        still: Flags,
        passed_s: Seconds,
    ) -> None:
        """Move the speed of each job on (``slow`` of its memory: what is missing).

        ``shown``: what each row does now, (row,), in any unit that stays the same; ``still``: jobs
        that pause. What is usual is learnt of rows at work in jobs that neither crawl nor pause.
        """
        of, group = members.of, members.group
        here = (group >= 0) & (does >= 0)
        learns = here & (does == BUSY)
        learns[learns] = ~((of["slow"] > 1 - CRAWL) | still)[group[learns]]
        share = self._share(shown, learns, self._columns.each(passed_s))
        seen = here & np.isfinite(share)
        n = members.count(seen)
        total = np.bincount(group[seen], share[seen], minlength=len(n))
        slow = 1 - total / np.maximum(n, 1)
        weight = np.minimum(of.each(passed_s) / MEAN_S, 1.0)
        of["slow"] += np.where(n > 0, weight * (slow - of["slow"]), 0.0)

    def _share(self, shown: Floats, learns: Flags, step_s: Seconds) -> Floats:
        """Each row's share of its usual pace, (row,), NaN where it is not known."""
        columns, known = self._columns, np.isfinite(shown)
        share = np.full(len(shown), np.nan)
        np.divide(shown, columns["pace"], out=share, where=known & (columns["pace"] > 0))
        share = np.asarray(np.minimum(share, CLIP))
        takes = known & learns
        weight = np.minimum(step_s / np.clip(columns["pace_s"], MEAN_S, PACE_S), 1.0)
        moved = columns["pace"] + weight * (shown - columns["pace"])
        moved = np.where(np.isfinite(columns["pace"]), moved, shown)
        columns["pace"] = np.where(takes, moved, columns["pace"])
        columns["pace_s"] += step_s * takes
        return share


def crawl(members: Members, counts: Counts, still: Flags, step_s: Seconds) -> tuple[Flags, Flags]:
    """Jobs whose crawl is to be reported now, and those of which a reported one is over, (job,).

    A job crawls while it computes now and then; one that worked on and off before is not judged.
    """
    of = members.of
    of["still_s"] = np.where(counts.works > 0, 0.0, of["still_s"] + step_s)
    low = (of["slow"] > 1 - CRAWL) & (of["slow"] < 1 - STANDS)
    goes = low & (of["still_s"] <= STEP_S) & (of["stage"] == 0)
    of["crawl_s"] += step_s * (goes & ~(still & (of["kind"] == ALONE)))
    none = np.zeros(len(goes), np.bool_)
    if not any_true(of["crawl_s"]):
        return none, none
    known = members.known()
    steady = (of["steady"] >= STEADY) & (of["worked_s"] >= STEADY_AFTER_S)
    begins = steady & (of["crawl_s"] >= report_after(known)[CRAWLS]) & (of["crawl_stage"] == 0)
    well = of["slow"] < 1 - WELL
    kind = np.full(len(well), CRAWLS)
    of["longest_s"], of["number"] = learnt(known, of["crawl_s"], kind, well)
    of["crawl_s"] = np.where(well, 0.0, of["crawl_s"])
    return begins, well & (of["crawl_stage"] > 0)
