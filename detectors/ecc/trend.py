"""Correctable errors that come back: how many hours have any, never how many errors, because one bad cell may fire thousands."""

from __future__ import annotations

from math import log

import numpy as np
from numpy.typing import NDArray

from detectors.block_clock import BlockClock, BlockMeans
from detectors.columns import Columns
from detectors.memory import Numbers
from detectors.stats import bernoulli_cusum, bernoulli_steps

HOUR_S = 3600.0
# Healthy share of hours with an error: what the fleet shows, at least 0.2 %, with half a hit in 250 hours known beforehand.
LEAST_SHARE, PRIOR_HITS, PRIOR_HOURS = 0.002, 0.5, 250.0
SICK_FACTOR, MOST_SICK = 25.0, 0.5
# The limit by healthy share, for one false ticket in 1000 GPU-months (run lengths of 7.2e5 hours by Markov chain, see bernoulli_arl):
# half of the GPUs with an error in 5 % of their hours are told within three days, nine in ten within a week.
LIMITS = {0.002: 9.3, 0.003: 9.6, 0.005: 10.3, 0.01: 11.2, 0.02: 12.2, 0.05: 12.4}
CALM_HOURS = 168  # a week below a quarter of the limit: over


def limit_at(share: float) -> float:
    """The limit h at a healthy share, between those of the table by its logarithm.

    >>> limit_at(0.002), limit_at(0.01), limit_at(0.9)
    (9.3, 11.2, 12.4)
    """
    return float(np.interp(log(share), [log(p) for p in LIMITS], list(LIMITS.values())))


class Trend:
    """Bernoulli CUSUM on hours with at least one correctable error. Hours of which less than half was seen hold, unless they had one.

    What is healthy is learnt from GPUs that are far from the limit and were not told of.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self.clock, self.means = BlockClock(HOUR_S), BlockMeans(columns, ["errors"])
        self.fleet = Numbers(hits=0.0, hours=0.0)

    @staticmethod
    def fills() -> dict[str, float | int | bool]:
        """The columns it needs."""
        return {**BlockMeans.fills("errors"), "hit": False, "S": 0.0, "sick": False, "calm_hours": 0, "hits": 0, "hours": 0}

    @property
    def share(self) -> float:
        """The healthy share of hours with an error."""
        return max(LEAST_SHARE, (self.fleet["hits"] + PRIOR_HITS) / (self.fleet["hours"] + PRIOR_HOURS))

    def add(self, errors: NDArray[np.float64], mono_ns: int, boot_id: str) -> NDArray[np.bool_] | None:
        """New errors of one frame, (row,), NaN = not observed; where an hour ends: which rows alarm."""
        ended = self.clock.turn(mono_ns, boot_id)
        if ended is None:
            return None
        self.means.add(errors=errors)
        self._columns["hit"] |= errors > 0
        return self._hour() if ended else None

    def hit(self, row: int) -> None:
        """The driver itself told of many errors (XID 92): this hour has one."""
        self._columns["hit"][row] = True

    def _hour(self) -> NDArray[np.bool_]:
        columns = self._columns
        seen = np.isfinite(self.means.close()["errors"])
        hit = np.where(columns["hit"], 1.0, np.where(seen, 0.0, np.nan))
        columns.reset(np.ones(len(columns), np.bool_), "hit")
        p0 = self.share
        h = limit_at(p0)
        healthy = (columns["S"] < h / 2) & ~columns["sick"] & np.isfinite(hit)
        columns["S"], alarm = bernoulli_cusum(columns["S"], hit, bernoulli_steps(p0, min(MOST_SICK, SICK_FACTOR * p0)), h)
        calm = (columns["S"] < h / 4) & ~alarm
        columns["calm_hours"] = np.where(np.isfinite(hit), np.where(calm, columns["calm_hours"] + 1, 0), columns["calm_hours"])
        columns["sick"] = (columns["sick"] | alarm) & (columns["calm_hours"] < CALM_HOURS)
        columns["hits"] += hit > 0
        columns["hours"] += np.isfinite(hit)
        self.fleet["hits"] += float(np.sum(hit[healthy]))
        self.fleet["hours"] += float(np.sum(healthy))
        return alarm

    def over(self, row: int) -> bool:
        """Whether it has been calm for long enough."""
        return not self._columns["sick"][row]
