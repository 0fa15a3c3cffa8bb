"""Where a temperature is heading, seen from itself: how its slope has changed in half a minute."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
SPAN_S, MIN_SPAN_S = 30.0, 15.0  # over which slopes are fitted: sensors step by 1 K
HALF_S = SPAN_S / 2
STRAIGHT = 0.98  # a slope of which so much is left after 15 s has not changed


class Line(NamedTuple):
    """A straight line through the newest readings, each (row,), NaN where they are too few or
    too near one another.

    ``slope``: K/s. ``now``: its value at the newest reading. ``age``: mean of the readings', s.
    ``rise``: how far the newest reading is above the lowest, K. ``explains``: the share of the
    variance of the readings that is the line's.
    """

    slope: Floats
    now: Floats
    age: Floats
    rise: Floats
    explains: Floats


class Approach(NamedTuple):
    """An exponential through two lines, ``T(t) = Tinf - (Tinf - T) exp(-t/tau)``, each (row,).

    ``slope``: K/s now; ``before``: that of the older line. ``settles``: Tinf, infinite where the
    slope does not fall. ``left``: seconds until T is 0, infinite where it never is.
    """

    slope: Floats
    before: Floats
    settles: Floats
    left: Floats


def line(t: Floats, T: Floats, youngest_s: float, oldest_s: float, least_s: float) -> Line:  # noqa: N803
    """Least squares over the readings of such ages; ``t`` in s and ``T`` in K, both (block, row),
    the newest first. They must span ``least_s``.

    >>> t = np.array([[20.0], [15.0], [10.0], [5.0]])
    >>> [round(float(x[0]), 2) for x in line(t, 0.5 * t, 0, 10, 5)]
    [0.5, 10.0, 5.0, 5.0, 1.0]
    """
    old = t[0] - t
    use = np.isfinite(T) & (old <= oldest_s) & (old >= youngest_s)
    n = np.maximum(use.sum(axis=0), 1)
    ago = np.where(use, old, 0.0)
    value = np.where(use, T - T[0], 0.0)
    age, mean = ago.sum(axis=0) / n, value.sum(axis=0) / n
    apart = np.where(use, ago - age, 0.0)
    spread = (apart**2).sum(axis=0)
    spanned = ago.max(axis=0) - np.where(use, old, np.inf).min(axis=0)
    enough = (spanned >= least_s) & np.isfinite(T[0]) & (spread > 0)
    missing = np.full(T.shape[1], np.nan)
    shared = -(apart * value).sum(axis=0)
    slope = np.divide(shared, spread, out=missing, where=enough)
    varies = (np.where(use, value - mean, 0.0) ** 2).sum(axis=0)
    explains = np.divide(shared * slope, varies, out=np.zeros(T.shape[1]), where=varies > 0)
    return Line(slope, T[0] + mean + slope * age, age, -value.min(axis=0), explains)


def approach(t: Floats, T: Floats, half: float = HALF_S) -> Approach:  # noqa: N803
    """The exponential through the lines of the last ``half`` seconds and of as many before:
    their slopes differ by ``exp(-s/tau)``, s the seconds between them, whatever tau is.

    >>> t = np.arange(30.0, -1, -5)[:, None]  # ends at 20 K, 0 after 64 s
    >>> seen = approach(t, 20 - 100 * np.exp(-t / 40))
    >>> [round(float(x[0])) for x in (seen.settles, seen.left)]
    [21, 33]
    """
    new, old = line(t, T, 0.0, half, half / 2), line(t, T, half, 2 * half, half / 2)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        kept = np.where(old.slope > 0, new.slope / old.slope, np.inf)  # NaN where one is
        kept = np.where(np.isnan(old.slope) | np.isnan(new.slope), np.nan, kept)
        bends = (kept > 0) & (kept < STRAIGHT)
        tau = np.where(bends, -(old.age - new.age) / np.log(np.where(bends, kept, 0.5)), np.inf)
        slope = new.slope * np.exp(-new.age / tau)
        settles = np.where(
            np.isnan(kept) | (new.slope <= 0),
            np.nan,
            new.now + slope * np.where(bends, tau, np.inf),
        )
        left = np.where(bends, tau * np.log((settles - new.now) / settles), -new.now / slope)
    crosses = (settles > 0) & (new.now < 0) & (slope > 0)
    return Approach(slope, old.slope, settles, np.where(crosses, left, np.inf))
