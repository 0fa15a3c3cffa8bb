"""The clocks of each job: how long it has worked, copied, paused, or been back at work."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detectors.hang.counts import Counts
from detectors.hang.members import Members
from detectors.hang.pauses import ALL_WAIT, WAITS, learnt
from detectors.hang.stages import PAGED
from detectors.kit.block_clock import Seconds
from detectors.kit.columns import rows_where
from pipeline.small_arrays import any_true

BREAK_S = 15.0  # a stir shorter than this is no end of a pause
# time constant of the share of time in which a job works, shorter while it is young
DUTY_S, MIN_DUTY_S = 3600.0, 600.0


def advance(
    members: Members,
    counts: Counts,
    still: NDArray[np.bool_],
    step_s: Seconds,
    *,
    moves: NDArray[np.bool_],
    copies: NDArray[np.bool_],
) -> None:
    """How long each job has worked, copied, been back or over.

    ``still``: it pauses; ``moves``, ``copies``: a member was read that does, all (job,).
    """
    of, n, works, out = members.of, counts.n, counts.works, counts.out
    at_work = (works > 0) & (2 * works >= n)
    of["worked_s"] += step_s * at_work
    of["back_s"] = np.where((works > 0) & ~still, of["back_s"] + step_s, 0.0)
    of["over_s"] = np.where((n > 0) & (out == n), of["over_s"] + step_s, 0.0)
    of["out_s"] = np.where((out > 0) & (out == of["out"]), of["out_s"] + step_s, 0.0)
    of["out"] = out.astype(np.float64)
    weight = step_s / np.clip(of["worked_s"], MIN_DUTY_S, DUTY_S)
    of["duty"] += np.where(n > 0, weight * (at_work - of["duty"]), 0.0)
    of["steady"] = np.where(at_work, of["duty"], of["steady"])
    begins = (works == 0) & (of["silent_s"] == 0)  # a stir within a pause is no save
    # one reading says that it moved data, and not for how long: two in a row do
    moves = begins & moves
    of["moving_s"] += step_s * (moves & (of["moves"] > 0))
    of["moves"] = moves.astype(np.float64)
    of["copied_s"] += step_s * (begins & copies)
    longer = of["moving_s"] > of["moved_s"]
    for job in rows_where(at_work & longer):
        of["moved_s"][job] = of["moving_s"][job]
        members.remember(job)
    for name in ("moving_s", "copied_s"):
        of[name] = np.where(at_work, 0.0, of[name])


def pause(
    members: Members, still: NDArray[np.bool_], kind: NDArray[np.int64], step_s: Seconds
) -> None:
    """Count the seconds of a pause; learn how long it was when it ended by itself."""
    of = members.of
    begins, before = of["silent_s"] == 0, of["kind"].astype(np.int64)
    # one that waits among others was not read for a moment, or has died now
    alike = ((kind == WAITS) | (kind == ALL_WAIT)) & ((before == WAITS) | (before == ALL_WAIT))
    goes_on = still & ((kind == before) | begins | alike)
    kind = np.where(~begins & alike & (before == WAITS), WAITS, kind)
    of["silent_s"] = np.where(goes_on, of["silent_s"] + of["broken_s"] + step_s, of["silent_s"])
    of["broken_s"] = np.where(goes_on | (of["silent_s"] == 0), 0.0, of["broken_s"] + step_s)
    of["kind"] = np.where(goes_on, kind, of["kind"])
    ended = of["broken_s"] >= BREAK_S
    if any_true(ended):
        # The first that paged is no habit yet; when it comes again, it is.
        first = (of["stage"] >= PAGED) & (of["paged"] == 0)
        of["paged"] += ended & (of["stage"] >= PAGED)
        of["longest_s"], of["number"] = learnt(
            members.known(), of["silent_s"], before, ended & (of["proved"] == 0) & ~first
        )
        for job in rows_where(ended):
            members.remember(job)
        of["kind"] = np.where(ended, kind, of["kind"])
        of["silent_s"] = np.where(ended, np.where(still, of["broken_s"], 0.0), of["silent_s"])
        of["broken_s"] = np.where(ended, 0.0, of["broken_s"])
