"""What the members of each job do, and whether that is a pause of the job."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from detectors.hang.activity import BUSY, FREE, IDLE, LOST, MOVING, SPINS, UNKNOWN
from detectors.hang.members import Members
from detectors.hang.pauses import ALL_WAIT, ALONE, STARVES, WAITS
from detectors.hang.suspects import MINORITY

MIN_MEMBERS = 2  # a job of one has no peers
MAX_UNREAD = 0.1  # of the members: a job with more unread members is not judged


@dataclass(frozen=True, slots=True)
class Counts:
    """How many members of each job there are and what they do, (job,)."""

    n: NDArray[np.int64]
    works: NDArray[np.int64]
    moves: NDArray[np.int64]
    waits: NDArray[np.int64]
    idle: NDArray[np.int64]
    unread: NDArray[np.int64]
    out: NDArray[np.int64]

    @classmethod
    def of(cls, members: Members, does: NDArray[np.int64]) -> Counts:
        """Of members that worked for their job: the others' ``does`` is -1."""
        works, moves, waits, idle, unread = (
            members.count(does == state) for state in (BUSY, MOVING, SPINS, IDLE, UNKNOWN)
        )
        out = members.count((does == FREE) | (does == LOST))
        return cls(members.count(does >= 0), works, moves, waits, idle, unread, out)

    def pauses(self) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Whether each job pauses, and how: nobody computes or copies, or few compute while most
        others wait for them.
        """
        read = (self.n >= MIN_MEMBERS) & (self.unread <= MAX_UNREAD * self.n) & (self.moves == 0)
        silent = read & (self.works == 0) & (self.waits + self.idle > 0)
        few = (self.works > 0) & (self.works <= np.maximum(1, MINORITY * self.n))
        alone = read & few & (self.waits >= self.n - self.works - self.unread) & (self.waits > 0)
        kind = np.where(self.waits == 0, STARVES, WAITS)
        kind = np.where(self.waits >= self.n - self.unread, ALL_WAIT, kind)
        return silent | alone, np.where(alone, ALONE, kind)
