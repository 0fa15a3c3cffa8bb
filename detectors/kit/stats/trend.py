"""Slopes that outliers do not tilt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from detectors.kit.stats.peers import row_medians
from pipeline.small_arrays import any_true

if TYPE_CHECKING:
    from numpy.typing import NDArray


def theil_sen(
    t: NDArray[np.float64], y: NDArray[np.float64], least: int = 3
) -> NDArray[np.float64]:
    """Median of the slopes between all pairs of samples, (device,), for times t (sample,) and
    values y (sample, device).

    Sen (1968), J. American Statistical Association 63. NaN are left out; NaN where fewer than
    ``least`` samples are observed. Memory grows with the square of the samples: meant for some tens
    (24 hours), not for raw seconds.

    >>> t = np.arange(5.0)
    >>> theil_sen(t, np.stack([2 * t, np.array([0.0, 1.0, 99.0, 3.0, np.nan])], axis=1)).tolist()
    [2.0, 1.0]
    """
    first, second = np.triu_indices(len(t), 1)
    span = t[second] - t[first]
    first, second, span = first[span != 0], second[span != 0], span[span != 0]
    slope = np.full(y.shape[1], np.nan)
    enough = np.isfinite(y).sum(axis=0) >= least
    if len(span) and any_true(enough):
        slopes = ((y[second][:, enough] - y[first][:, enough]) / span[:, None]).T.copy()
        slope[enough] = row_medians(slopes, (~np.isnan(slopes)).sum(axis=1))
    return slope
