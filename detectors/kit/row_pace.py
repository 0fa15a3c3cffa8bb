"""How often each row's node is read, in frames that keep rows of nodes which they do not read."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detectors.kit.columns import Columns
from detectors.kit.snapshot import State
from detectors.kit.stateful import Commit

FORGET = 0.9  # how fast a faster pace of sampling is forgotten, per block
FRAMES, USUAL = "row_frames", "row_usual"  # labels in a state


class RowPace:
    """Readings of each row's node in the running block, and how many are usual.

    Nodes of one fleet are read once a second, or once a minute: what is usual for one says nothing
    of another. It begins with the first such frame (pipeline/roster.py), and counts in no other.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._frames: NDArray[np.float64] | None = None
        self._usual = np.zeros(0)

    def add(self) -> bool:
        """The frame that the columns show; whether rows are counted."""
        unread = self._columns.unread()
        if unread is None:
            return False
        if self._frames is None:
            self._frames = np.zeros(0)
        self._grow()
        self._frames += ~unread
        return True

    def expected(self) -> NDArray[np.float64] | None:
        """Readings that a block has as a rule, (row,), at least one; None where no row is counted.

        The next block begins.
        """
        if self._frames is None:
            return None
        self._grow()
        self._usual = np.maximum(self._frames, FORGET * self._usual)
        self._frames = np.zeros(len(self._usual))
        return np.maximum(1.0, np.rint(self._usual))

    def state(self) -> State:
        """Both numbers of all rows, nothing where none is counted."""
        return {} if self._frames is None else {FRAMES: self._frames, USUAL: self._usual}

    def prepare(self, state: State) -> Commit:
        """KeyError or ValueError where it does not fit; a state without any counts none."""
        if FRAMES not in state:
            return lambda: None
        frames, usual = (state[name].astype(np.float64) for name in (FRAMES, USUAL))
        if frames.shape != usual.shape:
            raise ValueError("paces of rows do not fit")

        def commit() -> None:
            self._frames, self._usual = frames, usual

        return commit

    def _grow(self) -> None:
        assert self._frames is not None  # noqa: S101 - its callers have looked
        more = len(self._columns) - len(self._frames)
        if more:
            self._frames, self._usual = (
                np.concatenate((array, np.zeros(more))) for array in (self._frames, self._usual)
            )
