"""How fast each job goes, as a share of its own usual speed: a job that crawls never stops, so no
pause shows it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detectors.kit.columns import Columns

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

PACE_S = 3600.0  # time constant of what is usual
MEAN_S = 120.0  # and of the speed now: several steps of most jobs
# of its usual speed: below it a job crawls, above it it works again
CRAWL, WELL = 0.15, 0.5
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

    def forget(self, rows: Flags) -> None:
        """Other jobs have these rows now."""
        self._columns.reset(rows, "pace", "pace_s")

    def look(self, shown: Floats, works: Flags, learns: Flags, step_s: float) -> Floats:
        """Each row's share of its usual pace, (row,), NaN where it is not known.

        ``shown``: what it does now, in any unit that stays the same; rows that ``works`` are at
        their job; those that ``learns`` have a job that goes on as usual.
        """
        columns = self._columns
        known = np.isfinite(shown)
        share = np.where(
            known & (columns["pace"] > 0), np.minimum(shown / columns["pace"], CLIP), np.nan
        )
        takes = known & learns & (works | np.isfinite(columns["pace"]))
        first = takes & ~np.isfinite(columns["pace"])
        weight = step_s / np.minimum(np.maximum(columns["pace_s"], MEAN_S), PACE_S)
        moved = columns["pace"] + np.minimum(weight, 1.0) * (shown - columns["pace"])
        columns["pace"] = np.where(first, shown, np.where(takes, moved, columns["pace"]))
        columns["pace_s"] = columns["pace_s"] + step_s * takes
        return share
