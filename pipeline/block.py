"""Block: the values of one frame, of the columns that were observed.

What a gateway gets from a host. Of the catalogue's columns a host observes a part; only where
blocks of many hosts are joined (pipeline/roster.py) is there room for the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.frame import Device, Frame, Schema, blank, schema_of

MAX_LAYOUTS = 1024  # that are known again: hosts of one model and version have the same few


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Which rows of a frame of this schema the rows of a block are; ``whole``: all, in order."""

    schema: Schema
    gauges: NDArray[np.intp]
    counters: NDArray[np.intp]
    whole: bool


@lru_cache(MAX_LAYOUTS)
def layout_of(kind: str, gauges: tuple[str, ...], counters: tuple[str, ...]) -> Layout:
    """Of a block with these columns; the same object for the same ones.

    KeyError where the catalogue has no such column.
    """
    schema = schema_of(kind)
    rows = [schema.gauge_row[name] for name in gauges]
    counted = [schema.counter_row[name] for name in counters]
    whole = rows == [*range(len(schema.gauges))] and counted == [*range(len(schema.counters))]
    return Layout(schema, np.array(rows, np.intp), np.array(counted, np.intp), whole)


class Block(NamedTuple):
    """Shapes: ``gauges`` float64 (gauge, device), NaN = not observed; ``counters`` uint64 and
    ``observed`` bool (counter, device), None where all are; ``sampled_ns`` int64 (device,). Times
    as a frame's.
    """

    layout: Layout
    time_ns: int
    mono_ns: int
    devices: tuple[Device, ...]
    gauges: NDArray[np.float64]
    counters: NDArray[np.uint64]
    observed: NDArray[np.bool_] | None
    sampled_ns: NDArray[np.int64]

    @property
    def kind(self) -> str:
        """Kind of device."""
        return self.layout.schema.kind

    def frame(self) -> Frame:
        """With all columns of the catalogue."""
        layout = self.layout
        gauges, counters, observed = blank(self.kind, self.devices)
        gauges[layout.gauges] = self.gauges
        counters[layout.counters] = self.counters
        observed[layout.counters] = True if self.observed is None else self.observed
        return Frame(
            layout.schema,
            self.time_ns,
            self.mono_ns,
            self.devices,
            gauges,
            counters,
            observed,
            self.sampled_ns,
        )


class Holder(Protocol):
    """What has the values of blocks, and can get them again."""

    def block(self, number: int) -> Block:
        """One of its blocks, with values."""


class Elsewhere(NamedTuple):
    """A block whose values are in another process: the one numbered so of ``holder``."""

    layout: Layout
    time_ns: int
    mono_ns: int
    devices: tuple[Device, ...]
    holder: Holder
    number: int

    @property
    def kind(self) -> str:
        """Kind of device."""
        return self.layout.schema.kind

    def frame(self) -> Frame:
        """With all columns of the catalogue, fetched from there."""
        return replace(self.block().frame(), time_ns=self.time_ns)

    def block(self) -> Block:
        """With its values."""
        return self.holder.block(self.number)


AnyBlock = Block | Elsewhere


def block_of(frame: Frame | AnyBlock) -> AnyBlock:
    """A frame as a block of all its columns; a block as it is."""
    if not isinstance(frame, Frame):
        return frame
    schema = frame.schema
    layout = layout_of(schema.kind, tuple(schema.gauge_row), tuple(schema.counter_row))
    return Block(
        layout,
        frame.time_ns,
        frame.mono_ns,
        frame.devices,
        frame.gauges,
        frame.counters,
        frame.observed,
        frame.sampled_ns,
    )
