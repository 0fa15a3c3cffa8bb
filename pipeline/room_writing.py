"""Who writes the values of blocks into the arrays of a joined frame: this process, or others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.block import AnyBlock, Block, Elsewhere, Layout
from pipeline.room import Room


class Writing(Protocol):
    """Makes rooms, and writes into them until ``done``."""

    def room(self, kind: str, rows: int) -> Room:
        """One in which nothing was observed, that this writer can write to."""

    def write(self, room: Room, layout: Layout, placed: Sequence[tuple[int, AnyBlock]]) -> None:
        """Begin to write blocks of one layout, each at its first row, in order of the rows."""

    def done(self) -> None:
        """Return when all is written."""


class Here:
    """In this thread, at once."""

    def room(self, kind: str, rows: int) -> Room:
        """Memory of this process alone."""
        return Room.of(kind, rows)

    def write(self, room: Room, layout: Layout, placed: Sequence[tuple[int, AnyBlock]]) -> None:
        """Written when it returns."""
        write(room, layout, [(begin, _here(block)) for begin, block in placed])

    def done(self) -> None:
        """It is."""


def _here(block: AnyBlock) -> Block:
    return block.block() if isinstance(block, Elsewhere) else block


def _rows_of(placed: Sequence[tuple[int, Block]]) -> slice | NDArray[np.intp]:
    """The rows of these blocks, which are in order: a slice where there is no other between."""
    widths = [len(block.devices) for _, block in placed]
    begins = [begin for begin, _ in placed]
    if begins[-1] + widths[-1] - begins[0] == sum(widths):
        return slice(begins[0], begins[-1] + widths[-1])
    return np.concatenate(
        [np.arange(begin, begin + width) for begin, width in zip(begins, widths, strict=True)]
    )


def write(room: Room, layout: Layout, placed: Sequence[tuple[int, Block]]) -> None:
    """The values of blocks of one layout, each with its first row, in order."""
    at, blocks = _rows_of(placed), [block for _, block in placed]
    room.sampled_ns[at] = np.concatenate([block.sampled_ns for block in blocks])
    measured, counted = layout.gauges, layout.counters
    if not isinstance(at, slice):
        measured, counted = measured[:, None], counted[:, None]
    room.gauges[measured, at] = np.concatenate([block.gauges for block in blocks], axis=1)
    room.counters[counted, at] = np.concatenate([block.counters for block in blocks], axis=1)
    room.observed[counted, at] = _observed(blocks)


def _observed(blocks: Sequence[Block]) -> NDArray[np.bool_] | bool:
    """Which counters, (counter, device); True where all are."""
    if all(block.observed is None for block in blocks):
        return True
    return np.concatenate(
        [
            np.ones(block.counters.shape, np.bool_) if block.observed is None else block.observed
            for block in blocks
        ],
        axis=1,
    )
