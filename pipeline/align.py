"""Rows: a device keeps its row while the process lives; one that leaves is unobserved,
one that comes is appended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import compress, count, repeat
from operator import is_not

import numpy as np
from numpy.typing import NDArray

from pipeline.frame import Device

SHARED = 1024  # devices, from which on it is remembered where they came from


def fresh(known: Sequence[Device], devices: Sequence[Device]) -> list[int]:
    """Indices of the devices that are not the very objects that were there before.

    Of a cluster a node at a time comes or changes; the others need no second look.

    >>> a, b, c = (Device("n1", "gpu", x) for x in "abc")
    >>> fresh((a, b), (a, c, b)), fresh((a, b), (a, b)), fresh((), (a,))
    ([1, 2], [], [0])
    """
    others = compress(count(), map(is_not, known, devices))
    return [*others, *range(len(known), len(devices))]


# What was found last: a fleet's frames of a kind, of which one is at work, go to dozens of readers.
_FOUND: deque[tuple[tuple[Device, ...], tuple[Device, ...], NDArray[np.intp]]] = deque(maxlen=4)


def came_from(known: tuple[Device, ...], devices: tuple[Device, ...]) -> NDArray[np.intp]:
    """Where each device was, as the very same object, among those that were there before,
    (device,); -1 for others. Not to be written to: readers share it.

    >>> a, b, c = (Device("n1", "gpu", x) for x in "abc")
    >>> came_from((a, b), (a, c, b)).tolist()
    [0, -1, 1]
    """
    for before, now, found in tuple(_FOUND):  # another thread may add to it
        if before is known and now is devices:
            return found
    at = dict(zip(map(id, known), count()))
    places = np.fromiter(map(at.get, map(id, devices), repeat(-1)), np.intp, len(devices))
    if len(devices) >= SHARED:
        _FOUND.append((known, devices, places))
    return places


NOTHING: tuple[tuple[Device, ...], NDArray[np.intp]] = ((), np.zeros(0, np.intp))


class Rows:
    """The stable row order of one kind of device.

    ``devices`` is always the same tuple object until a device comes or an attribute changes, so a
    reader may compare identity.

    >>> a, b, c = (Device("n1", "gpu", x) for x in "abc")
    >>> rows = Rows()
    >>> rows.place([a, b]), rows.place([c, b])
    ([0, 1], [2, 1])
    >>> [d.id for d in rows.devices]
    ['a', 'b', 'c']
    """

    def __init__(self, known: Iterable[Device] = ()) -> None:
        self.devices: tuple[Device, ...] = tuple(known)
        self._row = {device: row for row, device in enumerate(self.devices)}
        self._last: tuple[tuple[Device, ...], NDArray[np.intp]] = NOTHING

    def place(self, devices: Iterable[Device]) -> list[int]:
        """The row of each device given; new ones get the next rows,
        changed attributes take effect.
        """
        placed: list[int] = []
        order = list(self.devices)
        changed = False
        for device in devices:
            row = self._row.setdefault(device, len(order))
            if row == len(order):
                order.append(device)
                changed = True
            elif order[row].attributes != device.attributes:
                order[row] = device
                changed = True
            placed.append(row)
        if changed:
            self.devices, self._last = tuple(order), NOTHING
        return placed

    def at(self, devices: tuple[Device, ...]) -> NDArray[np.intp]:
        """As ``place``, (device,); quick where most devices are those of the last call."""
        known, before = self._last
        origin = came_from(known, devices)
        rows = np.append(before, -1)[origin]
        changed = np.flatnonzero(origin < 0)
        rows[changed] = self.place(devices[number] for number in changed.tolist())
        self._last = devices, rows
        return rows

    def rename(self, row: int, device: Device) -> None:
        """Give the row of a device that is gone to one that is new."""
        order = list(self.devices)
        del self._row[order[row]]
        order[row], self._row[device] = device, row
        self.devices, self._last = tuple(order), NOTHING

    def row(self, device: Device) -> int | None:
        """Row of a device, None where it was never seen."""
        return self._row.get(device)

    def __len__(self) -> int:
        return len(self.devices)
