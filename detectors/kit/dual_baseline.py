"""Two baselines of each device side by side: one of its job, for what begins while that runs,
and one that survives jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.kit.baseline import Baseline, Limit, Spread, runs
from detectors.kit.columns import Columns
from detectors.kit.pooled import moved, pooled_spread
from detectors.kit.stateful import Numbers

# blocks; a new job shows within twenty minutes how its ranks differ
JOB_WARM, JOB_HALF_LIFE = 20, 120.0
ACROSS_WARM, ACROSS_HALF_LIFE, ACROSS_CLIP = 60, 720.0, 0.05
# ln units: what a device differs by from job to job
SHIFT_START, SHIFT_WEIGHT, SHIFT_LEARNT = 0.008, 0.3, 30
ACROSS = "across"
# A device that is not this far (ln units) behind the median of its peers delays no other, whatever
# it was before: a clock lock or a power cap takes the fast ones' lead away, which is no fault of
# theirs.
BEHIND = 0.02


class BlockResiduals(NamedTuple):
    """A block: residuals in both lanes, (row,), NaN while not learnt, and the
    limits of the runs by name.
    """

    r: NDArray[np.float64]
    r_across: NDArray[np.float64]
    limits: Mapping[str, Spread]

    def loss(self, in_job: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Share that is lost, (row,), by the lane of the job where that says
        so, else by the other one.
        """
        lost: NDArray[np.float64] = -np.expm1(np.where(in_job, self.r, self.r_across))
        return lost

    def share_of_limit(self, name: str) -> NDArray[np.float64]:
        """How much of its limit each row has used up, (row,), in the worse of the lane ``name``
        belongs to and the one across jobs.
        """
        share: NDArray[np.float64] = np.fmax(
            -self.r / self.limits[name], -self.r_across / self.limits[ACROSS]
        )
        return share


class DualBaseline:
    """Judges blocks of ``y = ln x - peers`` against both baselines.

    ``inside`` are the limits of the lane of the job by name.

    Its memory are the columns of ``fills`` and the numbers of ``numbers``. The run counter of a
    limit is the column ``run_{name}``.
    """

    def __init__(
        self, columns: Columns, numbers: Numbers, inside: Mapping[str, Limit], across: Limit
    ) -> None:
        self._columns, self._numbers = columns, numbers
        self._inside, self._limit_across = dict(inside), across
        self.job = Baseline(
            columns, numbers, "job", warm=JOB_WARM, half_life=JOB_HALF_LIFE, clip=lambda s: 3 * s
        )
        self.across = Baseline(
            columns,
            numbers,
            ACROSS,
            warm=ACROSS_WARM,
            half_life=ACROSS_HALF_LIFE,
            clip=lambda _: ACROSS_CLIP,
        )

    @staticmethod
    def fills(*inside: str) -> dict[str, float | int]:
        """The columns it needs."""
        return (
            Baseline.fills("job")
            | Baseline.fills(ACROSS)
            | {f"run_{name}": 0 for name in (*inside, ACROSS)}
        )

    @staticmethod
    def numbers() -> dict[str, float]:
        """The numbers it needs."""
        return Baseline.numbers("job") | Baseline.numbers(ACROSS) | {"shift2": SHIFT_START**2}

    def judge(self, y: NDArray[np.float64]) -> BlockResiduals:
        """One block: residuals, 0 at least where a device is not behind its peers, and
        the run counters moved on.
        """
        r, r_across = (
            np.where(y > -BEHIND, np.maximum(r, 0.0), r)
            for r in (self.job.residual(y), self.across.residual(y))
        )
        shift2: Spread = self._columns.each(self._numbers["shift2"])
        wander: Spread = np.sqrt(self.across.s**2 + 2 * shift2)
        limits = {name: limit.at(self.job.s) for name, limit in self._inside.items()}
        for name, limit in limits.items():
            self._columns[f"run_{name}"] = runs(self._columns[f"run_{name}"], r, limit)
        limits[ACROSS] = self._limit_across.at(wander)
        self._columns[f"run_{ACROSS}"] = runs(
            self._columns[f"run_{ACROSS}"], r_across, limits[ACROSS]
        )
        return BlockResiduals(r, r_across, limits)

    def reached(self, name: str) -> NDArray[np.bool_]:
        """Where a limit was exceeded for as many blocks in a row as it takes, (row,)."""
        limit = self._limit_across if name == ACROSS else self._inside[name]
        reached: NDArray[np.bool_] = self._columns[f"run_{name}"] >= limit.blocks
        return reached

    def learn(self, y: NDArray[np.float64], frozen: NDArray[np.bool_]) -> None:
        """What the block teaches; rows with any run counter above 0, and
        ``frozen`` ones, teach nothing.
        """
        for name in (*self._inside, ACROSS):
            frozen = frozen | (self._columns[f"run_{name}"] > 0)
        self.job.learn(y, frozen)
        self.across.learn(y, frozen)

    def next_job(self, rows: NDArray[np.bool_], keep: NDArray[np.bool_]) -> None:
        """These rows work for another job: a baseline of its own, except where
        ``keep``: a new job is no repair.
        """
        learnt = rows & (self.job.n > SHIFT_LEARNT) & (self.across.n > SHIFT_LEARNT)
        numbers = self._numbers
        shift = pooled_spread(
            self._columns, self.job.b - self.across.b, learnt, np.size(numbers["shift2"])
        )
        numbers["shift2"] = moved(numbers["shift2"], SHIFT_WEIGHT, shift**2)
        self._begin(rows & ~keep, self.job)

    def accept(self, rows: NDArray[np.bool_]) -> None:
        """What these rows do now is normal from now on."""
        self._begin(rows, self.job, self.across)

    def _begin(self, rows: NDArray[np.bool_], *lanes: Baseline) -> None:
        for lane in lanes:
            lane.forget(rows)
        self._columns.reset(rows, *(f"run_{name}" for name in (*self._inside, ACROSS)))
