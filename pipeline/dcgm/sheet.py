"""Columns of one kind of device at DCGM's scales, without the values that DCGM calls blank and
dcgm-exporter would refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from pipeline.catalog import fields_of
from pipeline.exposition.cells import Cells, Column
from pipeline.exposition.latest import Entry
from pipeline.frame import Frame

if TYPE_CHECKING:
    from numpy.typing import NDArray

# DcgmCacheManager.cpp: readings above 200 degrees are sensor garbage (memory 140, GPU 150).
HOTTEST, TEMPERATURES = 200.0, (140, 150)


@cache
def columns_of(kind: str) -> Mapping[int, Column]:
    """The column of each DCGM id that a kind of device has."""
    return {d.id: Column(f, d.times, d.per, d.whole) for f in fields_of(kind) for d in f.dcgm}


class Sheet:
    """The cells of one frame for the DCGM ids of a page.

    ``counters`` are the ids that the page types as counters.
    """

    def __init__(self, entry: Entry, ids: Iterable[int], counters: frozenset[int]) -> None:
        known = columns_of(entry.frame.kind)
        self._place = {
            number: i for i, number in enumerate(dict.fromkeys(i for i in ids if i in known))
        }
        self._devices = len(entry.frame.devices)
        self._cells = Cells(
            entry.frame.schema, [known[number] for number in self._place], self._devices
        )
        self._counters = self._flags(counters)
        self._temperatures = self._flags(TEMPERATURES)
        self.texts = self._cells.texts
        self.present: NDArray[np.bool_] = self._cells.present
        self.dropped = {"not_finite": 0, "negative_counter": 0}

    def __len__(self) -> int:
        return len(self.texts)

    def cell(self, number: int, row: int) -> int:
        """Index of the cell of a DCGM id and a device, -1 where this kind has no such field."""
        place = self._place.get(number, -1)
        return -1 if place < 0 or row < 0 else place * self._devices + row

    def fill(self, entry: Entry) -> None:
        """Take over a frame of the same devices; nothing is present while it is not fresh."""
        self._cells.fill(entry.frame)
        numbers = self._cells.numbers
        with np.errstate(invalid="ignore"):
            infinite = np.isinf(numbers)
            negative = self._counters & (numbers < 0) & ~infinite
            hot = self._temperatures & (numbers > HOTTEST)
        shown = self._cells.present if entry.fresh else np.zeros_like(self._cells.present)
        self.dropped = {
            "not_finite": int((infinite & shown).sum()),
            "negative_counter": int((negative & shown).sum()),
        }
        self.present = shown & ~(infinite | negative | hot)

    def _flags(self, ids: Iterable[int]) -> NDArray[np.bool_]:
        wanted = set(ids)
        return np.repeat(
            np.array([number in wanted for number in self._place], np.bool_), self._devices
        )


def answering(frame: Frame) -> NDArray[np.bool_]:
    """Which devices of a frame gave anything beyond their state, (device,)."""
    known = ~np.isnan(frame.gauges)
    state = frame.schema.gauge_row.get("state")
    if state is not None:
        known[state] = False
    return np.logical_or(known.any(axis=0), frame.observed.any(axis=0))
