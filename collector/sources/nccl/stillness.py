"""The cheapest suspicion: for a while some GPUs of the node wait in a kernel, and none of
them works or moves data.

A checkpoint or a slow step may look so too. It is no finding, only a reason to ask jobs that may be
asked, long before a detector is sure.
"""

from __future__ import annotations

import numpy as np

from detectors.hang.activity import BUSY, MOVING, SPINS, Activity
from detectors.hang.progress import Progress
from detectors.kit.block_clock import StepClock
from detectors.kit.columns import Columns
from pipeline.frame import Frame

STILL_S = 30.0  # as long as a step of training takes, 2 to 30 s, each of which communicates


class Stillness:
    """Follows the frames of the node's GPUs."""

    def __init__(self) -> None:
        self._columns = Columns(**(Activity.fills() | Progress.fills()))
        self._activity, self._clock = Activity(self._columns), StepClock()
        self._still_s = 0.0
        self._since_ns = 0

    def look(self, frame: Frame, boot_id: str) -> None:
        """Take the next frame of kind ``gpu``, with its increments."""
        step_s = self._clock.step(frame.mono_ns, boot_id)
        if step_s is None:
            return
        self._columns.place(frame.devices)
        does = self._activity.look(frame, step_s)
        if bool(np.any(does == SPINS)) and not bool(np.any((does == BUSY) | (does == MOVING))):
            self._since_ns = self._since_ns if self._still_s else frame.mono_ns
            self._still_s += step_s
        else:
            self._still_s = 0.0

    def since_ns(self) -> int | None:
        """Since when all GPUs make no progress (monotonic), None where they do
        not, or not for long enough.
        """
        return self._since_ns if self._still_s >= STILL_S else None
