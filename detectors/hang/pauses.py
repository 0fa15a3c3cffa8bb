"""How long a job may pause before that is reported, and before it pages: learnt, by kind of pause,
from those that the job, or jobs like it, came out of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

# Kinds of pauses: some GPUs idle while the others wait in a kernel for them (a rank that hangs, or
# one that writes a checkpoint); all are idle; all wait in a kernel; few compute while all others
# wait; all compute, at a fraction of their speed.
WAITS, STARVES, ALL_WAIT, ALONE, CRAWLS = range(5)
KINDS = 5

# PyTorch ends a job whose collective takes longer than this unless its time-out was raised
# (torch.distributed.init_process_group: timeout, 10 minutes for NCCL).
WATCHDOG_S = 600.0
MARGIN_S = 60.0  # it looks once in a while, and so do we
# Seconds of each kind until a first report. Checkpoints of 60 to 180 s are usual (Llama 3 herd of
# models, section 3.3), and only pauses count in which no GPU of the job moves data, to a peer or to
# the host. Loading and saving leave all GPUs idle, so that one is longer.
MIN_S = np.array([[180.0], [420.0], [180.0], [WATCHDOG_S + MARGIN_S], [WATCHDOG_S]])
# Until a page, unless the job is known to save in another way: after many short saves the last one
# may write the whole model, and the longest checkpoint published took 100 minutes (Greyhound,
# ATC'25). Where all wait nobody writes: then the watchdog's limit counts.
MAX_SAVE_S = 6000.0
NEVER_S = 10_800.0  # half as long again as that, and half an hour
UNKNOWN_S = np.array([[NEVER_S], [NEVER_S], [WATCHDOG_S + MARGIN_S], [NEVER_S], [np.inf]])
# Until a first report where no pause of a kind is known, and saves were not seen: while the
# watchdog has not ended the job yet, and the rank can be looked at.
UNKNOWN_REPORT_S = 540.0
REPORT_LONGER = 2.0  # than the longest pause that it came out of: reported again
ALIKE_LONGER = 1.5  # than those of other jobs of its user
# A page is far out of that. From save to save durations differ by up to 6 (storage shared by jobs);
# after many saves the longest of them is close to the longest there is. Pauses of less than a
# minute are no waiting for storage but ranks that arrive at different times.
FAR_OUT, FAR_OUT_KNOWN, MANY = 6.0, 3.0, 8
FAR_OUT_SHORT, SHORT_S = 3.0, 60.0
MAX_PAGE_S = 4 * 3600.0  # whatever it did before: a night that a job hung is no habit
MIN_PAUSE_S = 20.0  # two readings of the slowest period in use
# of copying to the host in one stop: its ranks write their checkpoints by that, and a pause in
# which nothing moves is none of them; a snapshot for an asynchronous writer takes less
SAVES_BY_MOVING_S = 45.0
BEGINS_BY_MOVING_S = 10.0  # a stop that began so is a save, whatever moves later
# a process is gone, or the driver reported a serious error: one rank is known not to come
EVIDENCE_S = 60.0
# at first jobs compile, tune and load, and have not shown their pauses
YOUNG_S, YOUNG_PATIENCE_S = 900.0, 1200.0


class Known(NamedTuple):
    """What is known of jobs, arrays (job,) or (kind, job).

    ``longest_s`` of the pauses it came out of and their ``number``; ``alike_s`` what is usual for
    other jobs of its user; ``moved_s`` the longest stop in which it copied to the host;
    ``worked_s`` in all; ``copied_s`` in the stop that goes on.
    """

    longest_s: Floats
    alike_s: Floats
    number: Floats
    moved_s: Floats
    worked_s: Floats
    copied_s: Floats


def report_after(known: Known) -> Floats:
    """Seconds of a pause until it is reported, (kind, job).

    >>> one = np.zeros(1)
    >>> pairs = np.full((5, 1), 200.0), np.zeros((5, 1)), np.ones((5, 1))
    >>> report_after(Known(*pairs, one, one + 3600, one))[:2, 0]
    array([400., 420.])
    """
    least = np.where(known.number > 0, MIN_S, np.maximum(MIN_S, UNKNOWN_REPORT_S))
    usual = np.maximum(REPORT_LONGER * known.longest_s, ALIKE_LONGER * known.alike_s)
    report = np.minimum(np.maximum(least, usual), page_after(known))
    return np.asarray(np.maximum(report, _young(known)))


def page_after(known: Known) -> Floats:
    """Seconds of a pause until it pages, (kind, job): far out of what the job did before.

    A job that saves while bytes move, and has not moved any in this stop, does not save now.

    >>> one, moved = np.zeros(1), np.array([90.0])
    >>> none = np.zeros((5, 1))
    >>> new = Known(none, none, none, one, one + 3600, one)
    >>> page_after(new)[WAITS].tolist(), page_after(new._replace(moved_s=moved))[WAITS].tolist()
    ([10800.0], [180.0])
    >>> saved = new._replace(longest_s=np.full((5, 1), 2000.0), number=np.ones((5, 1)))
    >>> page_after(saved)[WAITS].tolist()
    [12000.0]
    """
    longest = known.longest_s
    factor = np.minimum(FAR_OUT, FAR_OUT_SHORT + longest / SHORT_S)
    factor = np.where(known.number >= MANY, np.minimum(factor, FAR_OUT_KNOWN), factor)
    far = np.minimum(np.maximum(MIN_S, factor * longest), MAX_PAGE_S)
    other = (known.moved_s >= SAVES_BY_MOVING_S) & (known.copied_s < BEGINS_BY_MOVING_S)
    other = other & (np.arange(KINDS)[:, None] < ALONE)
    limit = np.where(other, far, np.maximum(UNKNOWN_S, far))
    limit[CRAWLS] = np.inf
    return np.asarray(np.maximum(limit, _young(known)))


def learnt(
    known: Known, pause_s: Floats, kind: NDArray[np.int64], ended: Flags
) -> tuple[Floats, Floats]:
    """The longest pause and how many there were, (kind, job), after pauses of some kind (job,) that
    ended by themselves.

    >>> one = np.zeros(1)
    >>> known = Known(*[np.zeros((5, 1))] * 3, one, one, one)
    >>> longest, number = learnt(known, one + 9000.0, np.array([STARVES]), np.array([True]))
    >>> longest[:2, 0].tolist(), number[:2, 0].tolist()
    ([0.0, 6000.0], [0.0, 1.0])
    """
    counts = ended & (pause_s >= MIN_PAUSE_S) & (kind == np.arange(KINDS)[:, None])
    longest = np.where(
        counts, np.maximum(known.longest_s, np.minimum(pause_s, MAX_SAVE_S)), known.longest_s
    )
    return longest, known.number + counts


def _young(known: Known) -> Floats:
    """Seconds that jobs get that have not shown their pauses yet, (job,)."""
    return np.where(known.worked_s < YOUNG_S, YOUNG_PATIENCE_S, 0.0)
