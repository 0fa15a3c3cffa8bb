"""How a site's nodes are read, and how noisy its GPUs are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evaluation.independent.site.draw import between


@dataclass(frozen=True, slots=True)
class Manners:
    """Shares are of 1. ``hunger`` is the power of full work at the top clock, of the limit: above
    1 the site is power-bound. ``cap`` is the site's own limit, of the default one.
    """

    period_s: float
    power_noise: float
    clock_noise: float
    shared_noise: float  # of the clock noise, by all GPUs of a node
    hunger: float
    missed: float  # reads
    run: float  # of missed reads, on average
    sink_s: float
    cap: float
    cap_from_s: float
    seed: int


def manners(source: np.random.Generator, period_s: float, lasts_s: float) -> Manners:
    """Those of one site; one in five caps its GPUs from some hour on."""
    caps = source.random() < 0.2
    return Manners(
        period_s,
        between(source, 0.003, 0.06),
        between(source, 0.001, 0.02),
        source.random(),
        source.uniform(0.75, 1.25),
        between(source, 1e-4, 2e-2),
        between(source, 1, 20),
        between(source, 4, 90),
        source.uniform(0.65, 0.95) if caps else 1.0,
        source.uniform(0, lasts_s),
        int(source.integers(2**62)),
    )
