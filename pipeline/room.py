"""Room: the arrays of a joined frame, used again as soon as nobody holds a frame of them.

A frame of 6,250 nodes is 600 MB. An array of more than 32 MiB (the largest threshold of mallopt(3))
is mapped again each time, and each of its pages is a fault that costs more than what is written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pipeline.block import Layout
from pipeline.frame import blank

if TYPE_CHECKING:
    from numpy.typing import NDArray

KEPT = 3  # frames of several seconds are held while those seconds close together
HELD = 2  # references to an array that is in a room and in none of its views


@dataclass(slots=True)
class Room:
    """Arrays as a frame's. ``layouts`` are those whose columns were written: most columns of the
    catalogue belong to other hardware, and their pages are never touched.
    """

    gauges: NDArray[np.float64]
    counters: NDArray[np.uint64]
    observed: NDArray[np.bool_]
    sampled_ns: NDArray[np.int64]
    layouts: set[Layout] = field(default_factory=set)

    @classmethod
    def of(cls, kind: str, rows: int) -> Room:
        """In which nothing was observed."""
        return cls(*blank(kind, range(rows)), np.zeros(rows, np.int64))

    def clear(self) -> None:
        """As new."""
        for layout in self.layouts:
            self.gauges[layout.gauges] = np.nan
            self.counters[layout.counters] = 0
            self.observed[layout.counters] = False
        self.sampled_ns.fill(0)
        self.layouts.clear()

    def shown(
        self,
    ) -> tuple[NDArray[np.float64], NDArray[np.uint64], NDArray[np.bool_], NDArray[np.int64]]:
        """Views, which a frame may make read-only; what is made of them refers to this room."""
        return self.gauges[:], self.counters[:], self.observed[:], self.sampled_ns[:]

    @property
    def held(self) -> bool:
        """Whether a view of it lives: numpy gives each view the array that owns the memory."""
        return (
            sys.getrefcount(self.gauges) > HELD
            or sys.getrefcount(self.counters) > HELD
            or sys.getrefcount(self.observed) > HELD
            or sys.getrefcount(self.sampled_ns) > HELD
        )


class Rooms:
    """Of frames of one kind and one source; ``make`` another one of a kind and so many rows."""

    def __init__(self, make: Callable[[str, int], Room] = Room.of) -> None:
        self._make = make
        self._rooms: list[Room] = []
        self._rows = 0

    def free(self, kind: str, rows: int, only: Layout | None) -> Room:
        """One that nobody sees. ``only``: all rows will be written, in this layout; else nothing is
        observed in it yet.
        """
        if rows != self._rows:
            self._rooms, self._rows = [], rows
        room = next((each for each in self._rooms if not each.held), None)
        if room is None:
            room = self._make(kind, rows)
            if len(self._rooms) < KEPT:
                self._rooms.append(room)
        elif only is None or room.layouts != {only}:
            room.clear()
        return room
