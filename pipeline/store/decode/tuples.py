"""The devices of each frame, the same tuple for as long as none comes, goes or changes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from pipeline.frame import Device
from pipeline.store.decode.stretch import Placed, Stretch
from pipeline.store.decode.ticks import Ticks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Longs = NDArray[np.int64]


# By ids and hosts of the rows, boot, source, and changes of devices so far.
Known = dict[tuple[bytes, int, str, int], tuple[Device, ...]]


class Tuples:
    """Devices of one kind at each tick of one machine."""

    def __init__(
        self,
        stretch: Stretch,
        pieces: Iterable[Placed],
        named: tuple[str, str, Known],
        ticks: Ticks,
        shape: tuple[int, int],
    ) -> None:
        """``pieces`` are the machine's rows, ``named`` their kind, the host, and the devices that
        earlier ones made; ``shape`` is the number of ticks and rows.
        """
        self._stretch = stretch
        self._kind, self._host, self._known = named
        self._ids, self._hosts = np.full(shape, -1, np.int64), np.full(shape, -1, np.int64)
        for placed in pieces:
            tick = ticks.of(placed.reads)
            at = np.flatnonzero(tick >= 0)
            where = (tick[at], placed.piece.longs("row")[placed.rows[at]])
            self._ids[where], self._hosts[where] = placed.devices[at], placed.hosts[at]
        changed = np.zeros(shape[0], np.int64)
        if shape[0] > 1:
            changed[1:] = (
                (self._ids[1:] != self._ids[:-1]) | (self._hosts[1:] != self._hosts[:-1])
            ).any(axis=1)
        generation = np.cumsum(changed)
        first = np.searchsorted(generation, np.arange(generation[-1] + 1 if shape[0] else 0))
        words = [self._ids[tick].tobytes() + self._hosts[tick].tobytes() for tick in first.tolist()]
        self._rows = [words[number] for number in generation.tolist()]

    def at(self, tick: int, read: int, source: str, n: int) -> tuple[Device, ...]:
        """Devices of the frame that a read of a source gave at a tick."""
        stretch = self._stretch
        boot, seq = int(stretch.boots.of_read[read]), int(stretch.reads.seq[read])
        changes = stretch.devices.changes(boot, source, self._kind)
        key = (self._rows[tick], boot, source, bisect_right(changes, seq))
        if key not in self._known:
            self._known[key] = self._made(tick, boot, source, seq)[:n]
        return self._known[key]

    def _made(self, tick: int, boot: int, source: str, seq: int) -> tuple[Device, ...]:
        names, agent = self._stretch.names, self._stretch.boots.keys[boot][2]
        pairs = zip(self._ids[tick].tolist(), self._hosts[tick].tolist(), strict=True)
        return tuple(
            self._stretch.devices.at(
                (boot, source, self._kind, names[host], names[device]),
                seq,
                self._host if host == agent else names[host],
            )
            for device, host in pairs
            if device >= 0
        )
