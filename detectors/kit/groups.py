"""Groups of rows: numbers of the host, the rack and the peers of each device,
for votes and comparisons.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.kit.columns import Some
from detectors.kit.roll import Roll
from pipeline.align import fresh
from pipeline.frame import Device

NONE = np.zeros(0, np.int64)


class Groups:
    """Numbers the groups that devices belong to; -1 where a device belongs to none.

    Worked out again only when devices change. Where nodes are joined a group ends at its node.

    >>> groups = Groups(lambda device: device.attributes.get("rack", ""))
    >>> groups.of(
    ...     (
    ...         Device("n1", "gpu", "a", {"rack": "r1"}),
    ...         Device("n1", "gpu", "b"),
    ...         Device("n2", "gpu", "c", {"rack": "r1"}),
    ...     )
    ... )
    array([ 0, -1,  0])
    >>> groups.names
    ('r1',)
    """

    def __init__(self, key: Callable[[Device], str]) -> None:
        self._key = key
        self._devices: tuple[Device, ...] | None = None
        self._numbers, self._known = NONE, dict[tuple[str, str], int]()
        self._all: tuple[str, ...] = ()
        self._whose: Callable[[Device], str] = _nobody
        self.names: tuple[str, ...] = ()

    def of(self, devices: tuple[Device, ...]) -> NDArray[np.int64]:
        """The group of each device, (device,)."""
        if isinstance(devices, Some):
            return self._some(self.of(devices.whole)[devices.rows])
        if devices is not self._devices:
            if not self._stay(devices):
                self._known, self._numbers = {}, NONE
            known, more = self._known, map(self._named, devices[len(self._numbers) :])
            numbers = [known.setdefault(name, len(known)) if name[1] else -1 for name in more]
            self._numbers = np.concatenate((self._numbers, np.array(numbers, np.int64)))
            self._devices, self._all = devices, tuple(name for _, name in known)
        self.names = self._all
        return self._numbers

    def _named(self, device: Device) -> tuple[str, str]:
        """The group of a device, which ends at its node where nodes are joined."""
        return self._whose(device), self._key(device)

    def _stay(self, devices: tuple[Device, ...]) -> bool:
        """Whether those that are numbered have the groups that they had, whatever else is new."""
        before = self._devices
        if not before or len(devices) < len(before):
            return False
        others = [row for row in fresh(before, devices) if row < len(before)]
        now = [self._known.get(self._named(devices[row]), -1) for row in others]
        return bool(now == self._numbers[others].tolist())

    def _some(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Number only the groups of some devices, in the same order."""
        here = np.zeros(len(self._all) + 1, np.bool_)
        here[numbers] = True
        here[-1] = False  # of those that belong to none
        self.names = tuple(self._all[number] for number in np.flatnonzero(here).tolist())
        place = np.where(here, np.cumsum(here) - 1, -1)
        some: NDArray[np.int64] = place[numbers]
        return some

    def join(self, _roll: Roll) -> None:
        """Of several nodes, none of which is compared with another."""
        self._whose, self._devices = host_of, None

    def forget(self) -> None:
        """Work them out again: the key depends on something that has changed."""
        self._devices = None


def _nobody(_: Device) -> str:
    return ""


def host_of(device: Device) -> str:
    """The host."""
    return device.host


def rack_of(device: Device) -> str:
    """The rack, empty where it is not known."""
    return device.attributes.get("rack", "")


class Votes(NamedTuple):
    """Per group, all (groups,): how many were counted, for how many it holds, and the share,
    NaN where none was counted.
    """

    asked: NDArray[np.int64]
    votes: NDArray[np.int64]
    share: NDArray[np.float64]


def share_by_group(
    yes: NDArray[np.bool_], asked: NDArray[np.bool_], group: NDArray[np.int64], groups: int
) -> Votes:
    """Count the votes of those asked, all (device,), by group; a group below 0 is none.

    >>> true, false = True, False
    >>> votes = share_by_group(
    ...     np.array([true, false, true]), np.array([true, true, false]), np.array([0, 0, 1]), 2
    ... )
    >>> votes.votes.tolist(), votes.share.tolist()
    ([1, 0], [0.5, nan])
    """
    asked = asked & (group >= 0)
    count = np.bincount(group[asked], minlength=groups)
    votes = np.bincount(group[asked & yes], minlength=groups)
    return Votes(
        count, votes, np.divide(votes, count, out=np.full(groups, np.nan), where=count > 0)
    )
