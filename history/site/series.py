"""A series as a site kept it, and what can go wrong while it is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from sys import intern
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Prometheus, model/value/value.go: the NaN that says a series has ended.
STALE_BITS = 0x7FF0000000000002


class SiteError(ValueError):
    """What a site refused or answered wrongly, with its address, in one line."""


class TooMuchError(SiteError):
    """The site's limit of samples per question: ask for less time at once."""


class OtherWayError(SiteError):
    """The site cannot be read in this way: ask it in the next."""


@dataclass(frozen=True, slots=True)
class Series:
    """Labels (``__name__`` among them), sample times int64 (sample,) in unix milliseconds, rising,
    and values float64 (sample,). Stale markers and NaN are left out: a sample that is not there
    says the same. ``blanks`` is how many they were.
    """

    labels: Mapping[str, str]
    times_ms: NDArray[np.int64]
    values: NDArray[np.float64]
    blanks: int = 0

    @property
    def name(self) -> str:
        """Name of the metric."""
        return self.labels.get("__name__", "")


class Site(Protocol):
    """A history that can be asked."""

    @property
    def about(self) -> str:
        """Its address: what an import of it is known by."""

    @property
    def how(self) -> str:
        """What it is and how it is read, in words."""

    def names(self, begin_ms: int, end_ms: int) -> list[str]:
        """Names of the metrics that have samples in a span, sorted. SiteError."""

    def read(self, name: str, begin_ms: int, end_ms: int) -> Iterator[Series]:
        """Series of a metric with their samples from ``begin_ms`` up to but not including
        ``end_ms``. SiteError, TooMuchError.
        """


def clean(
    labels: Mapping[str, str],
    times_ms: NDArray[np.int64],
    values: NDArray[np.float64],
    span: tuple[int, int],
) -> Series:
    """A series of what an answer holds: in the order of time, each time once (the first counts),
    within the span, without NaN. Labels of many series share their words.
    """
    inside = (times_ms >= span[0]) & (times_ms < span[1])
    kept = inside & ~np.isnan(values)
    blanks = int(inside.sum() - kept.sum())
    if not kept.all():
        times_ms, values = times_ms[kept], values[kept]
    if len(times_ms) > 1 and not (np.diff(times_ms) > 0).all():
        times_ms, first = np.unique(times_ms, return_index=True)
        values = values[first]
    shared = {intern(name): intern(value) for name, value in labels.items()}
    return Series(shared, times_ms, values, blanks)


def interval_ms(times_ms: NDArray[np.int64]) -> int:
    """The interval of the scrapes that gave samples at these times: the median, so that a scrape
    that is missing does not count; 0 of fewer than two samples.

    >>> interval_ms(np.array([0, 15_000, 30_000, 60_000])), interval_ms(np.array([7]))
    (15000, 0)
    """
    return int(np.median(np.diff(times_ms))) if len(times_ms) > 1 else 0
