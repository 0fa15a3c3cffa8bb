"""Seconds since the reading before, where a frame keeps rows of nodes that it does not read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Steps(NamedTuple):
    """``frame``: seconds since the frame before; ``rows``: since each device's node was read
    before, (device,), NaN where it is not read now.
    """

    frame: float
    rows: NDArray[np.float64]
