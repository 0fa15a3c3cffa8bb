"""Block means: sequential tests run on these, never on raw samples, because
autocorrelation makes false alarms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

VALID_SHARE = 0.5  # a block counts where at least half of its samples were observed


def add_sample(
    total: NDArray[np.float64], count: NDArray[np.int64], x: NDArray[np.float64]
) -> None:
    """Add one sample per device to a running block, in place; all (device,). NaN adds nothing."""
    seen = np.isfinite(x)
    np.add(total, x, out=total, where=seen)
    count += seen


def block_mean(
    total: NDArray[np.float64],
    count: NDArray[np.int64],
    expected: int | NDArray[np.float64],
    least: float = VALID_SHARE,
) -> NDArray[np.float64]:
    """Mean of a block per device, (device,); NaN where fewer than ``least`` of the
    ``expected`` samples (one number, or one per device) were observed.

    >>> total, count = np.zeros(2), np.zeros(2, np.int64)
    >>> for x in ([1.0, 4.0], [2.0, np.nan], [3.0, np.nan], [6.0, np.nan]):
    ...     add_sample(total, count, np.array(x))
    >>> block_mean(total, count, expected=6).tolist()
    [3.0, nan]
    """
    wanted = least * expected
    enough = np.maximum(1.0, wanted) if isinstance(wanted, np.ndarray) else max(1.0, wanted)
    mean: NDArray[np.float64] = np.divide(
        total, count, out=np.full(len(total), np.nan), where=count >= enough
    )
    return mean
