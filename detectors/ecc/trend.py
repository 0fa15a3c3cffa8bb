"""Correctable errors that come back: how many hours have any, never how many errors, because one
bad cell may fire thousands.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from detectors.kit.block_clock import BlockClock, BlockMeans
from detectors.kit.columns import Columns, Ring
from detectors.kit.instants import Times
from detectors.kit.stateful import Numbers
from detectors.kit.stats import bernoulli_cusum, bernoulli_steps
from pipeline.frame import Frame

HOUR_S = 3600.0
# Healthy share of hours with an error: what the fleet shows, at least 0.2 %, with half a hit in
# 250 hours known beforehand.
MIN_SHARE, PRIOR_HITS, PRIOR_HOURS = 0.002, 0.5, 250.0
SICK_FACTOR, MAX_SICK = 25.0, 0.5
# The limit by healthy share, for one false ticket in 1000 GPU-months (run lengths of 7.2e5 hours by
# Markov chain, see bernoulli_arl): half of the GPUs with an error in 5 % of their hours are found
# within three days, nine in ten within a week.
LIMITS = {0.002: 9.3, 0.003: 9.6, 0.005: 10.3, 0.01: 11.2, 0.02: 12.2, 0.05: 12.4}
# Also a count: so many hours with an error within a week that a healthy GPU shows them less than
# once in 67 months (by the formula; once in 190 at a healthy share of 0.2 %, simulated). For what
# is to be found within a week it is the stronger test: at 5 % of hours it finds 97 % in time, the
# CUSUM 93 %; the CUSUM is quicker where errors come in many hours.
WEEK_HOURS, WEEK_ALARMS = 168, 0.015
MONTH_HOURS = 720
CALM_HOURS = 168  # a week without an error: over


def limit_at(share: float) -> float:
    """The limit h at a healthy share, between those of the table by its logarithm.

    >>> limit_at(0.002), limit_at(0.01), limit_at(0.9)
    (9.3, 11.2, 12.4)
    """
    return float(np.interp(log(share), [log(p) for p in LIMITS], list(LIMITS.values())))


def many_at(share: float) -> int:
    """How many hours of a week are too many at a healthy share: those that begin a full count come
    ``share P(k-1 or more)`` times an hour.

    >>> many_at(0.002), many_at(0.003), many_at(0.01)
    (4, 5, 8)
    """
    mean, k = share * WEEK_HOURS, 2
    tail, term = 1.0 - exp(-mean), mean * exp(-mean)  # P(1 or more), P(1)
    while MONTH_HOURS * share * tail > WEEK_ALARMS:
        tail, term = tail - term, term * mean / k  # P(k or more), P(k)
        k += 1
    return k


class Trend:
    """Bernoulli CUSUM on hours with at least one correctable error, and their number in a week.

    Hours of which less than half was seen hold, unless they had one. What is healthy is learnt from
    GPUs with no more hits than chance gives them.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self.clock, self.means = BlockClock(HOUR_S), BlockMeans(columns, ["errors"])
        self.fleet = Numbers(share=MIN_SHARE, hour=0.0)

    @staticmethod
    def fills() -> dict[str, float | int | bool | Ring]:
        """The columns it needs."""
        own: dict[str, float | int | bool | Ring] = {
            "hit": False,
            "S": 0.0,
            "degraded": False,
            "calm_hours": 0,
            "hits": 0,
            "hours": 0,
        }
        return {**BlockMeans.fills("errors"), **own, "week": Ring(WEEK_HOURS, fill=False)}

    @property
    def share(self) -> float:
        """The healthy share of hours with an error."""
        return self._number("share")

    def in_week(self, row: int) -> int:
        """Hours with an error within the last week."""
        return int(self._columns["week"][:, row].sum())

    def add(
        self, errors: NDArray[np.float64], frame: Frame, boot_id: str, at: Times
    ) -> Iterator[tuple[NDArray[np.bool_], Times]]:
        """New errors of one frame, (row,), NaN = not observed; where an
        hour ends: which rows alarm, and when. Joined nodes are in sight one by one.
        """
        ended = self.clock.turned(frame, boot_id)
        if ended is None:
            return
        self.means.add(errors=errors)
        self._columns["hit"] |= errors > 0
        # Each node has learnt another healthy share.
        for hours, then in self.clock.each(ended, at, singly=True):
            yield self._hour(hours), then

    def hit(self, row: int) -> None:
        """The driver itself reported many errors (XID 92): this hour has one."""
        self._columns["hit"][row] = True

    def _hour(self, ended: int) -> NDArray[np.bool_]:
        columns = self._columns
        seen = np.isfinite(self.means.close()["errors"])
        hit = np.where(columns["hit"], 1.0, np.where(seen, 0.0, np.nan))
        columns.reset(np.ones(len(columns), np.bool_), "hit")
        p0 = self._learn(hit)
        h = limit_at(p0)
        columns["S"], alarm = bernoulli_cusum(
            columns["S"], hit, bernoulli_steps(p0, min(MAX_SICK, SICK_FACTOR * p0)), h
        )
        alarm |= self._week(hit > 0, ended) >= many_at(p0)
        columns["calm_hours"] = np.where(
            np.isfinite(hit), np.where(hit > 0, 0, columns["calm_hours"] + 1), columns["calm_hours"]
        )
        columns["degraded"] = (columns["degraded"] | alarm) & (columns["calm_hours"] < CALM_HOURS)
        return alarm

    def _learn(self, hit: NDArray[np.float64]) -> float:
        """The healthy share as it was before this hour; then learn from it."""
        columns, before = self._columns, self.share
        columns["hits"] += hit > 0
        columns["hours"] += np.isfinite(hit)
        chance = before * columns["hours"]
        # the tail of a Poisson count beyond it is about a hundredth
        healthy = columns["hits"] <= chance + 2 * np.sqrt(chance) + 1
        hits, hours = float(columns["hits"][healthy].sum()), float(columns["hours"][healthy].sum())
        self.fleet["share"] = max(MIN_SHARE, (hits + PRIOR_HITS) / (hours + PRIOR_HOURS))
        return before

    def _week(self, hit: NDArray[np.bool_], ended: int) -> NDArray[np.int64]:
        """Put the hour that ended into the ring of the week, those that nobody saw after it; hours
        with an error in the week, (row,).
        """
        week, hour = self._columns["week"], int(self._number("hour"))
        week[hour % WEEK_HOURS] = hit
        for unseen in range(hour + 1, hour + min(ended, WEEK_HOURS)):
            week[unseen % WEEK_HOURS] = False
        self.fleet["hour"] = float(hour + ended)
        count: NDArray[np.int64] = week.sum(axis=0)
        return count

    def _number(self, name: str) -> float:
        """Of all GPUs, or of those of the one node in sight."""
        return float(np.reshape(self.fleet[name], -1)[0])

    def over(self, row: int) -> bool:
        """Whether it has been calm for long enough."""
        return not self._columns["degraded"][row]
