"""Detectors that rest: of most nodes, most of the time, they have nothing to follow, or nothing but
the time.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pipeline.frame import Frame

FOREVER_NS = 2**63 - 1  # until something happens


@runtime_checkable
class Resting(Protocol):
    """A detector, or fusion, of one node that need not be asked about every observation.

    While it rests, observations may be kept from it that have no event, are of a boot and of
    devices that it knows, and in which no reading ``stirs`` it: it would find nothing in them, and
    remember nothing but when they were. Before it is asked again it is shown the last of each
    source (detectors/node_sleepers.py).
    """

    def rests_ns(self) -> int:
        """How long it rests, from the observation that it was asked about last: 0 where it must be
        asked about the next one, ``FOREVER_NS`` where nothing is open, counted or waited for.
        """
        ...

    def stirs(self, frame: Frame) -> NDArray[np.bool_] | None:
        """Devices whose readings it must see, (device,), by the frame alone; None for none."""
        ...
