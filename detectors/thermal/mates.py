"""The GPUs of a node whose load began together: one that leaves the others behind."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.kit.groups import Groups
from pipeline.frame import Device

Floats = NDArray[np.float64]
MIN_MATES = 3
ALIKE = 0.3  # power, and that of the last minutes, differ by at most this share
AHEAD_K = 5.0  # above the hottest of the others
FASTER, FASTER_BY = 1.5, 0.1  # than the steepest of them, and K/s more


class State(NamedTuple):
    """Of all GPUs, each (row,): temperature, K, and its slope, K/s; the power now and that of the
    last minutes, in any one unit.
    """

    T: Floats
    slope: Floats
    drawn: Floats
    heated: Floats


class Mates:
    """Compares GPUs with those of their node under the same load."""

    def __init__(self, hosts: Groups) -> None:
        self._hosts = hosts

    def leads(
        self, asked: NDArray[np.bool_], devices: tuple[Device, ...], state: State
    ) -> NDArray[np.bool_]:
        """Which of the rows that are asked for, (row,), are well above the hottest of their mates
        and rise faster than all of them. False where fewer than three mates are alike.
        """
        T, slope, drawn, heated = state  # noqa: N806 - kelvin
        found = np.zeros(len(asked), np.bool_)
        if not asked.any():
            return found
        host = self._hosts.of(devices)
        order = np.argsort(host, kind="stable")
        first = np.searchsorted(host[order], host[asked], "left")
        last = np.searchsorted(host[order], host[asked], "right")
        for row, begin, end in zip(np.flatnonzero(asked), first, last, strict=True):
            mates = order[begin:end]
            mates = mates[
                (mates != row)
                & np.isfinite(T[mates] + slope[mates])
                & (np.abs(drawn[mates] - drawn[row]) < ALIKE * drawn[row])
                & (np.abs(heated[mates] - heated[row]) < ALIKE * drawn[row])
            ]
            if len(mates) >= MIN_MATES:
                steepest = max(float(slope[mates].max()), 0.0)
                found[row] = (
                    T[row] > T[mates].max() + AHEAD_K and slope[row] > FASTER * steepest + FASTER_BY
                )
        return found
