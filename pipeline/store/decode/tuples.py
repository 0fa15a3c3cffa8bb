"""The devices of each frame, the same tuple for as long as none comes, goes or changes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from pipeline.frame import Device
from pipeline.store.decode.stretch import Placed, Stretch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Longs = NDArray[np.int64]


class Tuples:
    """Devices of one kind at each tick of one machine."""

    def __init__(
        self,
        stretch: Stretch,
        pieces: Iterable[Placed],
        named: tuple[str, str],
        tick: Longs,
        shape: tuple[int, int],
    ) -> None:
        """``pieces`` are the machine's rows, ``named`` their kind and the host, ``tick`` (read,) is
        that of each read, ``shape`` the number of ticks and rows.
        """
        self._stretch = stretch
        self._kind, self._host = named
        self._ids, self._hosts = np.full(shape, -1, np.int64), np.full(shape, -1, np.int64)
        for placed in pieces:
            at = np.flatnonzero(tick[placed.reads] >= 0)
            where = (tick[placed.reads[at]], placed.piece.longs("row")[placed.rows[at]])
            self._ids[where], self._hosts[where] = placed.devices[at], placed.hosts[at]
        changed = np.zeros(shape[0], np.int64)
        if shape[0] > 1:
            changed[1:] = (
                (self._ids[1:] != self._ids[:-1]) | (self._hosts[1:] != self._hosts[:-1])
            ).any(axis=1)
        self._generation = np.cumsum(changed).tolist()
        self._known: dict[tuple[int, int, str, int], tuple[Device, ...]] = {}

    def at(self, tick: int, read: int, source: str, n: int) -> tuple[Device, ...]:
        """Devices of the frame that a read of a source gave at a tick."""
        stretch = self._stretch
        boot, seq = int(stretch.boots.of_read[read]), int(stretch.reads.seq[read])
        changes = stretch.devices.changes(boot, source, self._kind)
        key = (self._generation[tick], boot, source, bisect_right(changes, seq))
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
