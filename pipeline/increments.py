"""Increments of a whole column at once: what rates.py makes frame by frame, for questions and roll-ups over stored counters.

The rules and their constants are those of rates.py; a property test holds both together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.catalog import Field
from pipeline.rates import (
    FIRST,
    GAP,
    IMPLAUSIBLE,
    LONGEST_PERIODS,
    MISSING,
    OK,
    P99_STEP,
    RESET,
    RESET_FACTOR,
    RESET_FLOOR,
    SATURATED,
    SHORTEST_PERIODS,
    TOLERANCE,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


def column_increments(
    field: Field,
    value: NDArray[np.uint64],
    observed: NDArray[np.bool_],
    now_ns: NDArray[np.int64],
    begins: NDArray[np.bool_],
    *,
    period: float,
) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """Increment and quality of each sample of one counter of one device, both (sample,); NaN = none.

    All arrays are (sample,), in the order the samples were taken. ``now_ns`` is the source's own time where it gives one; ``begins``
    marks samples whose frame was the first of another life of the device (boot, driver load, reset); ``period`` is in seconds.

    >>> from pipeline.catalog import field
    >>> energy = field("gpu", "energy_millijoules")
    >>> samples = np.array([7, 9, 9, 2], np.uint64), np.ones(4, bool), np.arange(4) * 10**9, np.zeros(4, bool)
    >>> column_increments(energy, *samples, period=1.0)[0].tolist()
    [nan, 2.0, 0.0, 2.0]
    """
    delta, quality = np.full(len(value), np.nan), np.full(len(value), MISSING, np.uint8)
    at = np.flatnonzero(observed)
    if not len(at):
        return delta, quality
    quality[at[0]] = FIRST
    seen = value[at]
    delta[at[1:]], quality[at[1:]] = _between(field, seen, np.diff(now_ns[at]) / 1e9, begins[at[1:]], period)
    return delta, quality


def _between(field: Field, value: Any, seconds: Any, begins: Any, period: float) -> tuple[Any, Any]:
    """Increments and qualities of the samples after the first, all observed."""
    last, value = value[:-1], value[1:]
    top = np.uint64(2**field.width - 1)
    fell = value < last
    step = value - last  # wraps at 64 bits, as a 64-bit counter does
    delta = np.where(fell, np.nan, step.astype(np.float64))
    quality = np.full(len(value), OK, np.uint8)
    wrapped = fell & ~begins if field.overflow == "wraps" else np.zeros(len(value), np.bool_)
    delta[wrapped] = (step[wrapped] & top).astype(np.float64)
    reset = fell & ~wrapped
    quality[reset] = RESET
    saturated = value >= top if field.overflow == "sticks" else np.zeros(len(value), np.bool_)
    quality[saturated] = SATURATED
    gap = (seconds > LONGEST_PERIODS * period) | (seconds < SHORTEST_PERIODS * period)
    quality[gap & (quality == OK)] = GAP
    quality[_too_fast(field, delta, seconds, gap)] = IMPLAUSIBLE
    after_reset = reset & ~saturated & ((begins & (not field.lifetime)) | (value <= RESET_FLOOR))
    if np.any(unclear := reset & ~saturated & ~after_reset):  # then the size of its usual increments decides
        after_reset |= unclear & (value <= RESET_FACTOR * _p99(np.where(quality == OK, delta, np.nan)))
    delta[after_reset] = value[after_reset].astype(np.float64)
    impossible = _too_fast(field, delta, seconds, gap)
    quality[impossible], delta[impossible] = IMPLAUSIBLE, np.nan
    return delta, quality


def _too_fast(field: Field, delta: Any, seconds: Any, gap: Any) -> Any:
    if not field.maximum_per_second:
        return np.zeros(len(delta), np.bool_)
    with np.errstate(divide="ignore", invalid="ignore"):
        return ~gap & (delta / seconds > field.maximum_per_second * TOLERANCE)


def _p99(delta: Any) -> Any:
    """The tracked 99th percentile of the increments before each sample; NaN is not learnt."""
    before, p99 = np.zeros(len(delta)), 0.0
    for i, d in enumerate(delta.tolist()):
        before[i] = p99
        if d == d:  # noqa: PLR0124 - not NaN
            step = max(P99_STEP * max(p99, d), 1.0)
            p99 = p99 + 0.99 * step if d > p99 else max(p99 - 0.01 * step, 0.0)
    return before
