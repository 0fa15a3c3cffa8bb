"""Evidence that a detector's precision is high, or low, valid at any time of looking.

An interval for a fixed number of labels is not: looked at after each label, a 95 % bound frees a
detector of true precision .90 in one run of six. A test martingale may be looked at as often as one
likes: where the hypothesis holds it ever exceeds 1/a with probability a at most (Ville's
inequality; Ramdas et al. 2023, Statistical Science 38, "Game-theoretic statistics and safe anytime-
valid inference").
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, inf, lgamma, log

# To leave shadow mode is to refute "at most .9 of its incidents are real", bet on .98; to enter it
# again is to refute "at least .8 are real", bet on .6.
LEAVE_NULL, LEAVE_BET = 0.9, 0.98
ENTER_NULL, ENTER_BET = 0.8, 0.6
FIRST_DEMAND = 20.0  # 1/.05: confidence of 95 %
_STEPS = 60  # bisections: beyond the digits that are shown


def leave_evidence(real: int, others: int) -> float:
    """The e-value against "precision is at most .9": likelihood ratio of .98 to .9.

    >>> round(leave_evidence(36, 0), 1), round(leave_evidence(35, 0), 1)
    (21.4, 19.7)
    >>> round(leave_evidence(54, 1), 1)
    19.9
    """
    return _ratio(real, others, LEAVE_BET, LEAVE_NULL)


def enter_evidence(real: int, false: int) -> float:
    """The e-value against "precision is at least .8": likelihood ratio of .6 to .8.

    >>> round(enter_evidence(0, 5)), enter_evidence(8, 0) < 1
    (32, True)
    """
    return _ratio(real, false, ENTER_BET, ENTER_NULL)


def demand(entered: int) -> float:
    """The evidence that is asked for, doubled with each time that shadow mode was entered again:
    the chances of ever being wrong, 1/20, 1/40, ..., sum to a tenth at most.

    >>> demand(0), demand(2)
    (20.0, 80.0)
    """
    return FIRST_DEMAND * 2.0**entered


def precision_interval(real: int, others: int) -> tuple[float, float]:
    """A 95 % confidence sequence: over all times of looking it leaves out the true precision with
    probability .05 at most.

    The precisions that the Beta(1/2, 1/2) mixture does not refute (Robbins 1970, Annals of
    Mathematical Statistics 41).

    >>> low, high = precision_interval(60, 0)
    >>> round(low, 3), high
    (0.911, 1.0)
    >>> precision_interval(0, 0)
    (0.0, 1.0)
    """
    n = real + others
    if not n:
        return 0.0, 1.0
    mixture = _log_beta(real + 0.5, others + 0.5) - _log_beta(0.5, 0.5)

    def stays(p: float) -> bool:
        return mixture - _log_likelihood(real, others, p) < log(FIRST_DEMAND)

    best = real / n
    return _edge(stays, best, 0.0), _edge(stays, best, 1.0)


def _edge(stays: Callable[[float], bool], inside: float, end: float) -> float:
    if stays(end):
        return end
    for _ in range(_STEPS):
        middle = (inside + end) / 2
        inside, end = (middle, end) if stays(middle) else (inside, middle)
    return end


def _ratio(hits: int, misses: int, bet: float, null: float) -> float:
    power = _log_likelihood(hits, misses, bet) - _log_likelihood(hits, misses, null)
    return exp(min(power, 700.0))  # beyond is no float


def _log_likelihood(hits: int, misses: int, p: float) -> float:
    if (hits and p <= 0) or (misses and p >= 1):
        return -inf
    return (hits * log(p) if hits else 0.0) + (misses * log(1 - p) if misses else 0.0)


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)
