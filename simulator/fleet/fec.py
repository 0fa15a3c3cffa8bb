"""Histories of forward error correction on NVLink 5: codewords by how many symbols had to be
corrected, summed over a GPU's links.
"""

from __future__ import annotations

import numpy as np

from simulator.fleet.world import FleetState, Process
from simulator.links import FEC_BINS, NVLINK_RAW_BER
from simulator.profile import load_profile

PERIOD_S = 60.0
CODEWORD_BITS = 5440  # 544 symbols of 10 bits
RARER = 0.1  # each further bin on a good link
MAX_COUNT = 2.0**52


def histories(world: FleetState) -> Process:
    """Let the bins of all GPUs fill, once a minute; from the start on
    every GPU answers for them.
    """
    link = load_profile("hgx-b200").nvlink
    codewords = link.links * link.gigabytes_per_second * 8e9 / CODEWORD_BITS
    wrong = NVLINK_RAW_BER * CODEWORD_BITS
    rates = codewords * np.array([1.0, *(wrong * RARER**k for k in range(FEC_BINS - 1))])
    bins = np.arange(FEC_BINS)
    filled = np.zeros((FEC_BINS, world.gpus.count))
    while True:
        mean = rates[:, None] * PERIOD_S * world.fec_knob[None, :] ** bins[:, None]
        filled += world.rng.poisson(np.minimum(mean, MAX_COUNT / 1e6))
        for k in range(FEC_BINS):
            world.gpu_columns.set_counter(f"nvlink_fec_{k}_codewords", filled[k].astype(np.uint64))
        yield PERIOD_S
