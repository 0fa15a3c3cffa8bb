"""The GPUs of a node whose load began together: one that leaves the others behind."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.kit.groups import Groups
from pipeline.frame import Device
from pipeline.small_arrays import any_true

Floats = NDArray[np.float64]
MIN_PEERS = 3
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


class NodePeers:
    """Compares GPUs with those of their node under the same load."""

    def __init__(self, hosts: Groups) -> None:
        self._hosts = hosts

    def beside(self, rows: NDArray[np.bool_], devices: tuple[Device, ...]) -> NDArray[np.bool_]:
        """The rows of nodes in which one of these rows is, (row,)."""
        if not any_true(rows):
            return rows
        host = self._hosts.of(devices)
        return np.asarray((np.bincount(host, rows) > 0)[host])

    def leads(
        self, asked: NDArray[np.bool_], devices: tuple[Device, ...], state: State
    ) -> NDArray[np.bool_]:
        """Which of the rows that are asked for, (row,), are well above the hottest of their peers
        and rise faster than all of them. False where fewer than three peers are alike.
        """
        T, slope, drawn, heated = state  # noqa: N806 - kelvin
        found = np.zeros(len(asked), np.bool_)
        if not any_true(asked):
            return found
        host = self._hosts.of(devices)
        order = np.argsort(host, kind="stable")
        first = np.searchsorted(host[order], host[asked], "left")
        last = np.searchsorted(host[order], host[asked], "right")
        for row, begin, end in zip(np.flatnonzero(asked), first, last, strict=True):
            peers = order[begin:end]
            peers = peers[
                (peers != row)
                & np.isfinite(T[peers] + slope[peers])
                & (np.abs(drawn[peers] - drawn[row]) < ALIKE * drawn[row])
                & (np.abs(heated[peers] - heated[row]) < ALIKE * drawn[row])
            ]
            if len(peers) >= MIN_PEERS:
                steepest = max(float(slope[peers].max()), 0.0)
                found[row] = (
                    T[row] > T[peers].max() + AHEAD_K and slope[row] > FASTER * steepest + FASTER_BY
                )
        return found
