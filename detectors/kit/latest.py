"""Gauges that are judged once a block: of each row the newest reading of the block."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detectors.kit.columns import Columns
from detectors.kit.readings import reading
from pipeline.frame import Frame

Floats = NDArray[np.float64]


class Latest:
    """What a frame that ends a block shows of each row; where frames keep rows of nodes that they
    do not read, the newest reading since the block before.

    A node that is read every 15 s is read in one of 15 frames that end a block.
    """

    def __init__(self, columns: Columns, *names: str) -> None:
        self._columns, self._names = columns, names
        self._kept: Floats | None = None  # (name, row), and when they were read, s

    def see(self, frame: Frame) -> None:
        """A frame that the columns show."""
        unread = self._columns.unread()
        if unread is None:
            return
        kept = self._grown()
        now = np.stack([*self._wide(frame), np.full(len(unread), frame.mono_ns / 1e9)])
        kept[:, ~unread] = now[:, ~unread]

    def take(self, frame: Frame) -> tuple[Floats, Floats]:
        """At the end of a block: the gauges, (name, row), NaN where nothing was read, and when they
        were read, seconds of the monotonic clock, (row,).
        """
        columns = self._columns
        if self._kept is None:
            return np.stack(self._wide(frame)), np.full(len(columns), columns.monos_ns(frame) / 1e9)
        kept, self._kept = self._grown(), None
        return kept[:-1], kept[-1]

    def _wide(self, frame: Frame) -> list[Floats]:
        return [self._columns.wide(reading(frame, name)) for name in self._names]

    def _grown(self) -> Floats:
        kept = np.zeros((len(self._names) + 1, 0)) if self._kept is None else self._kept
        more = len(self._columns) - kept.shape[1]
        if more:
            kept = np.concatenate((kept, np.full((len(kept), more), np.nan)), axis=1)
        self._kept = kept
        return kept
