"""How long a job may pause before it counts as stalled: what is usual for it is learnt from
the pauses it came out of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

WAITS, STARVES = 0, 1  # kinds of pauses: some wait in a kernel for others; all are idle

# Seconds. Checkpoints of 60 to 180 s are usual (Llama 3 herd of models, section 3.3); here only
# pauses count in which no GPU of the job moves data, to a peer or to the host, so that most of a
# checkpoint does not. Loading and saving leave all GPUs idle, so this one is longer.
MIN_S = np.array([[180.0], [420.0]])
# Than the longest pause it came out of, however long that was: a trainer may idle for an hour each
# time while its data are made.
LONGER = 1.5
# Of a reported pause, so much may become usual: two nights that a job hung are none. All may
# idle for two hours while data are made; waiting in a kernel for more than one is rather a fault.
MAX_S = np.array([[3600.0], [7200.0]])
# a process is gone, or the driver reported a serious error: one rank is known not to come
EVIDENCE_S = 60.0
# at first jobs compile, tune and load, and have not shown their pauses
YOUNG_S, YOUNG_PATIENCE_S = 900.0, 1200.0


def patience(max_s: NDArray[np.float64], worked_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Seconds of silence until a stall, (kind, job), for the longest pause of each kind and the
    time that the job worked.

    >>> patience(np.array([[0.0, 200.0], [0.0, 9000.0]]), np.array([3600.0, 3600.0])).tolist()
    [[180.0, 300.0], [420.0, 13500.0]]
    """
    usual = np.maximum(MIN_S, LONGER * max_s)
    limit: NDArray[np.float64] = np.maximum(
        usual, np.where(worked_s < YOUNG_S, YOUNG_PATIENCE_S, 0.0)
    )
    return limit


def learnt(
    max_s: NDArray[np.float64],
    flagged_s: NDArray[np.float64],
    pause_s: NDArray[np.float64],
    told: NDArray[np.bool_],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The longest and the flagged pause in seconds, (kind, job), after one that ended, whose
    seconds and whether it was told are (job,).

    A pause that was told as a stall is learnt only when a second one was, and no further than a
    habit goes: one is a fault, two are a habit of the job.

    >>> longest, flagged = learnt(
    ...     np.full((2, 1), 60.0), np.zeros((2, 1)), np.array([9000.0]), np.array([True])
    ... )
    >>> longest.tolist(), learnt(longest, flagged, np.array([8000.0]), np.array([True]))[0].tolist()
    ([[60.0], [60.0]], [[3600.0], [7200.0]])
    """
    habit = np.where(told, np.minimum(np.minimum(flagged_s, pause_s), MAX_S), pause_s)
    return np.maximum(max_s, habit), np.where(told, pause_s, flagged_s)
