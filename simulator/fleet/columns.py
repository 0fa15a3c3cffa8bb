"""Frames of one kind of device for a whole fleet: what never changes is written once, what moves
is written tick by tick.

A frame of 512 GPUs is a megabyte, most of which never changes. So buffers are used again, but only
those that nobody holds any more: a frame that a detector keeps stays as it was.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pipeline.clock import Instant
from pipeline.frame import Device, Frame, blank, schema_of

Floats = NDArray[np.float64]
# references to a buffer's array that sys.getrefcount sees when no frame holds it: the
# attribute and the argument
NOBODY_ELSE = 2
MAX_BUFFERS = 20  # a suite judges 16 observations at once, and keeps their frames meanwhile
# Changes gauges, counters and the mask of one frame in place: readings that are not
# what the hardware holds.
Overlay = Callable[[Floats, NDArray[np.uint64], NDArray[np.bool_]], None]


@dataclass(slots=True)
class Chunk:
    """What moves in some ticks: gauges (tick, device) by name, and counters at each tick, uint64
    (tick, device), by name.
    """

    gauges: dict[str, Floats] = field(default_factory=dict)
    counters: dict[str, NDArray[np.uint64]] = field(default_factory=dict)


@dataclass(slots=True)
class _Buffer:
    gauges: Floats
    counters: NDArray[np.uint64]
    observed: NDArray[np.bool_]
    version: int = -1
    dirty: NDArray[np.bool_] | None = None  # columns that were blanked

    def free(self) -> bool:
        return all(
            sys.getrefcount(getattr(self, name)) == NOBODY_ELSE
            for name in ("gauges", "counters", "observed")
        )


class Columns:
    """The standing values of one kind of device, and frames made of them with what moves."""

    def __init__(self, kind: str, devices: Sequence[Device]) -> None:
        self.kind, self.schema, self.devices = kind, schema_of(kind), tuple(devices)
        self.gauges, self.counters, self.observed = blank(kind, self.devices)
        self._parts = np.zeros(self.counters.shape)
        self._version = 0
        self._buffers: list[_Buffer] = []

    def set_gauge(self, name: str, value: Floats | float, rows: object = slice(None)) -> None:
        """A standing gauge from now on."""
        self.gauges[self.schema.gauge_row[name], rows] = value  # type: ignore[index] # any numpy index
        self._version += 1

    def set_counter(self, name: str, value: object, rows: object = slice(None)) -> None:
        """A standing counter from now on, cut to the end of its register."""
        row = self.schema.counter_row[name]
        top = 2 ** self.schema.counters[row].width - 1
        self.counters[row, rows] = np.minimum(np.asarray(value, np.uint64), np.uint64(top))  # type: ignore[index] # any numpy index
        self.observed[row, rows] = True  # type: ignore[index] # any numpy index
        self._version += 1

    def counter(self, name: str) -> NDArray[np.uint64]:
        """A counter as it stands, (device,)."""
        column: NDArray[np.uint64] = self.counters[self.schema.counter_row[name]]
        return column

    def increase(self, name: str, more: int, row: int) -> None:
        """A standing counter of one device goes up; it sticks at the end of its register.

        What is not observed stays so.
        """
        at = self.schema.counter_row[name]
        top = 2 ** self.schema.counters[at].width - 1
        self.counters[at, row] = min(int(self.counters[at, row]) + more, top)
        self._version += 1

    def clear(self, name: str, row: int) -> None:
        """A counter of one device begins again."""
        at = self.schema.counter_row[name]
        self.counters[at, row] = 0
        self._parts[at, row] = 0.0
        self._version += 1

    def replace(self, row: int, device: Device) -> None:
        """Another device, or other facts of the same, in a row."""
        self.devices = (*self.devices[:row], device, *self.devices[row + 1 :])

    def unsupported(self, name: str, rows: object = slice(None)) -> None:
        """A field that these devices do not answer."""
        if name in self.schema.gauge_row:
            self.gauges[self.schema.gauge_row[name], rows] = np.nan  # type: ignore[index] # any numpy index
        else:
            self.observed[self.schema.counter_row[name], rows] = False  # type: ignore[index] # any numpy index
        self._version += 1

    def integrate(
        self, name: str, increments: Floats, unseen: Floats | None = None
    ) -> NDArray[np.uint64]:
        """What a counter shows after each of these increments, uint64 (tick, device).

        It stands at the end of the last.

        ``unseen`` is the share of each tick that lies after its reading. Parts of a unit are
        carried on; registers end where they end.
        """
        row = self.schema.counter_row[name]
        top = np.uint64(2 ** self.schema.counters[row].width - 1)
        total = np.empty_like(increments)
        before = self._parts[row]
        for tick, gained in enumerate(
            increments
        ):  # row by row: numpy's cumsum over the first axis is many times slower
            before = np.add(before, gained, out=total[tick])
        last = np.floor(total[-1])
        self._parts[row] = total[-1] - last
        if unseen is not None:
            total -= increments * unseen
            np.maximum(total, 0.0, out=total)
        values = total.astype(np.uint64)
        values += self.counters[row]
        self.counters[row] += last.astype(np.uint64)
        if self.schema.counters[row].width < 64:
            np.minimum(values, top, out=values)
            np.minimum(self.counters[row], top, out=self.counters[row])
        return values

    def keep(self, chunk: Chunk) -> None:
        """After the last tick of a chunk: what moved stands as it was last."""
        for name, values in chunk.gauges.items():
            self.gauges[self.schema.gauge_row[name]] = values[-1]
        self._version += 1

    def frame(
        self,
        chunk: Chunk,
        tick: int,
        now: Instant,
        sampled_ns: NDArray[np.int64],
        *,
        hidden: NDArray[np.bool_] | None = None,
        overlays: Sequence[Overlay] = (),
    ) -> Frame:
        """The frame at (unix, monotonic) ns.

        ``hidden`` devices were not read at all; ``overlays`` show something else.
        """
        buffer = self._buffer()
        for name, values in chunk.gauges.items():
            buffer.gauges[self.schema.gauge_row[name]] = values[tick]
        for name, counted in chunk.counters.items():
            buffer.counters[self.schema.counter_row[name]] = counted[tick]
        for overlay in overlays:
            overlay(buffer.gauges, buffer.counters, buffer.observed)
            buffer.version = -1
        if hidden is not None and hidden.any():
            buffer.gauges[:, hidden] = np.nan
            buffer.observed[:, hidden] = False
            buffer.dirty = hidden
        return Frame(
            self.schema,
            *now,
            self.devices,
            buffer.gauges.view(),
            buffer.counters.view(),
            buffer.observed.view(),
            sampled_ns,
        )

    def _buffer(self) -> _Buffer:
        for buffer in self._buffers:
            if buffer.gauges.shape == self.gauges.shape and buffer.free():
                break
        else:
            buffer = _Buffer(
                np.empty_like(self.gauges),
                np.empty_like(self.counters),
                np.empty_like(self.observed),
            )
            self._buffers = [*self._buffers[1 - MAX_BUFFERS :], buffer]
        if buffer.version != self._version:
            buffer.gauges[:], buffer.counters[:], buffer.observed[:] = (
                self.gauges,
                self.counters,
                self.observed,
            )
            buffer.version = self._version
        elif buffer.dirty is not None:
            buffer.gauges[:, buffer.dirty] = self.gauges[:, buffer.dirty]
            buffer.observed[:, buffer.dirty] = self.observed[:, buffer.dirty]
        buffer.dirty = None
        return buffer
