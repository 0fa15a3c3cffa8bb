"""CUSUMs of rare counts: Poisson for errors per window, Bernoulli for windows that had any; their
run lengths by Markov chain.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, exp, floor, log
from typing import TYPE_CHECKING

import numpy as np

from pipeline.small_arrays import or_else

if TYPE_CHECKING:
    from numpy.typing import NDArray

# k is rounded down to a fraction of this: S then is on a lattice and its run
# length is exact for that k
DENOMINATOR = 48
MISS_CELLS = 4  # cells of the lattice in one miss of a Bernoulli CUSUM


def poisson_k(l0: NDArray[np.float64], l1: NDArray[np.float64]) -> NDArray[np.float64]:
    """Reference value between a healthy rate l0 and a bad one l1 (events per window),
    elementwise: ``(l1-l0)/ln(l1/l0)``.

    The likelihood-ratio optimum: Lucas (1985), Technometrics 27.

    >>> poisson_k(np.array([1.0]), np.array([np.e])).round(6).tolist()
    [1.718282]
    """
    return (l1 - l0) / np.log(l1 / l0)


def poisson_cusum(
    S: NDArray[np.float64],  # noqa: N803 - the paper's symbol
    n: NDArray[np.float64],
    k: NDArray[np.float64],
) -> NDArray[np.float64]:
    """One window per device, (device,): ``max(0, S + min(n, 3k+3) - k)``; NaN holds.

    One burst alone moves S by 2k+3 at most.

    >>> poisson_cusum(
    ...     np.array([0.5, 0.5, 0.5]), np.array([1.0, 1000.0, np.nan]), np.array([1.0, 1.0, 1.0])
    ... ).tolist()
    [0.5, 5.5, 0.5]
    """
    step = np.minimum(n, 3 * k + 3) - k
    return np.where(np.isfinite(step), np.maximum(0.0, S + or_else(step)), S)


def bernoulli_steps(p0: float, p1: float) -> tuple[float, float]:
    """What a hit adds to S and what a miss adds (negative), between a healthy share p0
    of hits and a bad one p1.

    Log-likelihood ratios: Reynolds and Stoumbos (1999), J. Quality Technology 31.
    ValueError unless 0 < p0 < p1 < 1.

    >>> hit, miss = bernoulli_steps(0.002, 0.05)
    >>> round(hit, 3), round(miss, 4)
    (3.219, -0.0493)
    """
    if not 0 < p0 < p1 < 1:
        raise ValueError(f"wanted 0 < p0 < p1 < 1, got p0 {p0}, p1 {p1}")
    return log(p1 / p0), log((1 - p1) / (1 - p0))


def bernoulli_cusum(
    S: NDArray[np.float64],  # noqa: N803 - the paper's symbol
    hit: NDArray[np.float64],
    steps: tuple[float, float],
    h: float,
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """One window per device: S and whether it alarmed, both (device,).

    ``hit`` is 1, 0 or NaN = not observed, which holds S.

    After an alarm S restarts at 0.

    >>> S, alarm = bernoulli_cusum(
    ...     np.array([7.0, 7.0, 7.0]), np.array([1.0, 0.0, np.nan]), (3.0, -0.5), h=8.0
    ... )
    >>> S.tolist(), alarm.tolist()
    ([0.0, 6.5, 7.0], [True, False, False])
    """
    step = np.where(hit > 0, steps[0], np.where(hit == 0, steps[1], 0.0))
    moved = np.maximum(0.0, S + step)
    alarm = (moved >= h) & np.isfinite(hit)
    return np.where(alarm, 0.0, moved), alarm


def lattice_arl(steps: NDArray[np.int64], shares: NDArray[np.float64], h: int) -> float:
    """Mean number of steps until ``S = max(0, S + step)`` reaches h, from 0, for steps on a lattice
    with these probabilities.

    Brook and Evans (1972), Biometrika 59: solve ``(I - R) L = 1`` over the
    h states below the limit.

    A walk that goes up with probability 1/2 and else falls to 0 takes on average 2 + 4 steps
    to go up twice in a row:

    >>> round(lattice_arl(np.array([1, -1]), np.array([0.5, 0.5]), 2), 9)
    6.0
    """
    states = np.arange(h)
    transition = np.zeros((h, h))
    for step, share in zip(steps.tolist(), shares.tolist(), strict=True):
        target = np.maximum(states + step, 0)
        inside = target < h
        np.add.at(transition, (states[inside], target[inside]), share)
    return float(np.linalg.solve(np.eye(h) - transition, np.ones(h))[0])


def poisson_arl(mean: float, k: float, h: float) -> float:
    """Mean number of windows until a Poisson CUSUM (with its cap at 3k+3) reaches h,
    for counts of this mean.

    k is rounded down to a fraction with a denominator of at most 48, so the true run
    length is at least this.

    k = 1, h = 1: only two or more events in one window alarm, so the distance is 1/P(n >= 2).

    >>> abs(poisson_arl(0.5, 1.0, 1.0) - 1 / (1 - exp(-0.5) * 1.5)) < 1e-9
    True
    """
    fraction = _below(k)
    q, down = fraction.denominator, fraction.numerator
    cap = floor(3 * k + 3)
    counts = np.arange(cap + 1)
    shares = np.array([exp(-mean + n * log(mean) - _log_factorial(n)) for n in counts.tolist()])
    shares[-1] = max(0.0, 1.0 - float(shares[:-1].sum()))
    return lattice_arl((counts * q - down).astype(np.int64), shares, max(1, ceil(h * q)))


def poisson_h(l0: float, k: float, arl: float, step: float = 0.5) -> float:
    """The smallest multiple of ``step`` for h with at least ``arl`` windows between
    false alarms at rate l0.

    ValueError unless l0 < k: S would drift up by itself.

    >>> h = poisson_h(0.12, 0.469, 1e5)
    >>> poisson_arl(0.12, 0.469, h) >= 1e5 > poisson_arl(0.12, 0.469, h - 0.5)
    True
    """
    if not l0 < k:
        raise ValueError(f"wanted l0 < k, got l0 {l0}, k {k}")
    h = step
    while poisson_arl(l0, k, h) < arl:
        h += step
    return h


def bernoulli_arl(share: float, p0: float, p1: float, h: float) -> float:
    """Mean number of windows until a Bernoulli CUSUM for p0 against p1 reaches h, where a
    ``share`` of windows are hits.

    The lattice is a quarter of a miss wide; a hit is rounded up to it, so the true run
    length is at least this.

    >>> bernoulli_arl(0.05, 0.002, 0.05, 11.0) < 200 < 1e6 < bernoulli_arl(0.002, 0.002, 0.05, 11.0)
    True
    """
    up, down = bernoulli_steps(p0, p1)
    cell = -down / MISS_CELLS
    return lattice_arl(
        np.array([ceil(up / cell), -MISS_CELLS]), np.array([share, 1 - share]), ceil(h / cell)
    )


def _below(k: float) -> Fraction:
    """The largest fraction not above k with a denominator of at most DENOMINATOR."""
    best = Fraction(floor(k * DENOMINATOR), DENOMINATOR)
    near = Fraction(k).limit_denominator(DENOMINATOR)
    return near if best < near <= Fraction(k) else best


def _log_factorial(n: int) -> float:
    return float(np.log(np.arange(1, n + 1)).sum())
