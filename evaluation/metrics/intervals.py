"""Exact 95 % intervals of rates and shares, without scipy: a claim of few false alarms
needs to say how sure it is.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, inf, lgamma, log, log1p

CONFIDENCE = 0.95
_STEPS = 200  # bisections: the interval is then exact to the last bits
_SMALL = 1e-300


def poisson_interval(
    count: int, exposure: float, confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """Interval of a rate from a count of independent events in an exposure.

    Garwood (1936), Biometrika 28.

    Nothing in 2,000 GPU-months: the 97.5 % bound is -ln(0.025)/2000.

    >>> low, high = poisson_interval(0, 2000)
    >>> low, round(high, 6), round(-log(0.025) / 2000, 6)
    (0.0, 0.001844, 0.001844)
    """
    if exposure <= 0:
        return 0.0, inf
    tail = (1 - confidence) / 2
    # P(X >= count | mean) = P(count, mean), the regularised lower incomplete gamma function.
    low = 0.0 if count == 0 else _solve(lambda mean: _gamma_p(count, mean), tail, count)
    high = _solve(lambda mean: _gamma_p(count + 1, mean), 1 - tail, count + 1)
    return low / exposure, high / exposure


def share_interval(hits: int, of: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Interval of a share. Clopper and Pearson (1934), Biometrika 26.

    All of 10: the lower bound is 0.025 to the power 1/10.

    >>> low, high = share_interval(10, 10)
    >>> round(low, 6), round(0.025**0.1, 6), high
    (0.691503, 0.691503, 1.0)
    """
    if of == 0:
        return 0.0, 1.0
    tail = (1 - confidence) / 2
    low = 0.0 if hits == 0 else _bisect(lambda p: _binomial_tail(hits, of, p), tail, 0.0, 1.0)
    high = (
        1.0
        if hits == of
        else _bisect(lambda p: _binomial_tail(hits + 1, of, p), 1 - tail, 0.0, 1.0)
    )
    return low, high


def _solve(rising: Callable[[float], float], wanted: float, start: float) -> float:
    top = max(start, 1.0)
    while rising(top) < wanted:
        top *= 2
    return _bisect(rising, wanted, 0.0, top)


def _bisect(rising: Callable[[float], float], wanted: float, low: float, high: float) -> float:
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if rising(middle) < wanted:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _gamma_p(a: float, x: float) -> float:
    """Regularised lower incomplete gamma function: its series below a+1, Lentz' continued fraction
    above (DLMF 8.11.4, 8.9.2).
    """
    if x <= 0:
        return 0.0
    front = exp(-x + a * log(x) - lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        n = a
        while term > total * 1e-16:
            n += 1
            term *= x / n
            total += term
        return min(1.0, front * total)
    b = x + 1 - a
    c, d = 1 / _SMALL, 1 / b
    h = d
    for i in range(1, 100_000):
        an = -i * (i - a)
        b += 2
        d = 1 / (an * d + b or _SMALL)
        c = b + an / c or _SMALL
        h *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return max(0.0, 1 - front * h)


def _binomial_tail(hits: int, of: int, p: float) -> float:
    """P(X >= hits) of a binomial distribution."""
    if p <= 0 or p >= 1:
        return float(p >= 1)
    whole = lgamma(of + 1)
    return min(
        1.0,
        sum(
            exp(whole - lgamma(i + 1) - lgamma(of - i + 1) + i * log(p) + (of - i) * log1p(-p))
            for i in range(hits, of + 1)
        ),
    )
