"""Detectors that rest: of most nodes, most of the time, they have nothing to follow."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pipeline.frame import Frame


@runtime_checkable
class Resting(Protocol):
    """A detector, or fusion, of one node that need not be asked about every observation.

    While it rests, observations may be kept from it that have no event, are of a boot and of
    devices that it knows, and in which no reading ``stirs`` it: it would find nothing in them, and
    remember nothing but when they were. Before it is asked again it is shown the last of each
    source (detectors/node_sleepers.py).
    """

    def rests(self) -> bool:
        """Whether nothing is open, counted or waited for."""
        ...

    def stirs(self, frame: Frame) -> NDArray[np.bool_] | None:
        """Devices whose readings it must see, (device,), by the frame alone; None for none."""
        ...
