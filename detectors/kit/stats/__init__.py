"""Pure array functions over devices, one file per idea: what detectors judge with. A NaN holds
the state of its device.
"""

from __future__ import annotations

from detectors.kit.stats.blocks import add_sample, block_mean
from detectors.kit.stats.counts import (
    bernoulli_arl,
    bernoulli_cusum,
    bernoulli_steps,
    lattice_arl,
    poisson_arl,
    poisson_cusum,
    poisson_h,
    poisson_k,
)
from detectors.kit.stats.cusum import cusum, h_for_arl, siegmund_arl
from detectors.kit.stats.group_sums import GroupSums
from detectors.kit.stats.moments import Moments, alpha_of, ew_update
from detectors.kit.stats.peers import (
    grouped_median,
    median_mad,
    median_of,
    peer_deviation,
    row_medians,
)
from detectors.kit.stats.trend import theil_sen

__all__ = [
    "GroupSums",
    "Moments",
    "add_sample",
    "alpha_of",
    "bernoulli_arl",
    "bernoulli_cusum",
    "bernoulli_steps",
    "block_mean",
    "cusum",
    "ew_update",
    "grouped_median",
    "h_for_arl",
    "lattice_arl",
    "median_mad",
    "median_of",
    "peer_deviation",
    "poisson_arl",
    "poisson_cusum",
    "poisson_h",
    "poisson_k",
    "row_medians",
    "siegmund_arl",
    "theil_sen",
]
