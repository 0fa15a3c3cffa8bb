"""Figures of many cases: recall by the deadline, delay, attribution, class,
duplicates, flaps, time to clear.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, inf, isinf
from typing import Any

from evaluation.metrics.intervals import share_interval
from evaluation.metrics.match import Case


@dataclass(frozen=True, slots=True)
class Share:
    """Hits of a number of cases with the exact 95 % interval. Of nothing there is no share."""

    hits: int
    of: int

    @property
    def value(self) -> float | None:
        """The share."""
        return self.hits / self.of if self.of else None

    def document(self) -> dict[str, Any]:
        """As JSON."""
        low, high = share_interval(self.hits, self.of)
        return {"value": self.value, "hits": self.hits, "of": self.of, "low95": low, "high95": high}


def share_of(flags: Iterable[bool | None]) -> Share:
    """Share of True among those that are not None.

    >>> share_of([True, None, False, True]).value
    0.6666666666666666
    """
    known = [flag for flag in flags if flag is not None]
    return Share(sum(known), len(known))


def percentile(values: Sequence[float], p: float) -> float | None:
    """The smallest value that at least a share p of all reaches; None where there are none, or
    where it is infinite (missed).

    >>> (
    ...     percentile([5.0, 1.0, 3.0, float("inf")], 0.5),
    ...     percentile([5.0, 1.0, 3.0, float("inf")], 0.9),
    ... )
    (3.0, None)
    """
    if not values:
        return None
    value = sorted(values)[max(ceil(p * len(values)) - 1, 0)]
    return None if isinf(value) else value


def recall(cases: Iterable[Case], *, signs: bool = False) -> Share:
    """Share found by the deadline, with the right class and at least the right severity, of the
    cases watched until then.

    With ``signs`` it is enough that signs of what came had been reported as
    severely, and were open.
    """
    return share_of(case.in_time or (signs and case.signed) for case in cases if case.watched)


def figures(cases: Sequence[Case]) -> dict[str, Any]:
    """Every figure of a group of cases (one scenario at one magnitude), as JSON.

    Cases whose deadline lies beyond the end of the run are left out. A miss, late ones too, has an
    infinite delay: a percentile that falls among misses is null. Attribution and duplicates are of
    the cases found in time; ``class`` is the share with the right class among those with
    any alert in time. An alert that is open at the end of the run has an infinite time to clear;
    some would have cleared later. ``too_loud``: paged for less than a page.
    """
    every, cases = cases, [case for case in cases if case.watched]
    found = [case for case in cases if case.in_time]
    noticed = [
        case for case in cases if case.noticed_s is not None and case.noticed_s <= case.deadline_s
    ]
    delays = [
        case.detected_s if case.in_time and case.detected_s is not None else inf for case in cases
    ]
    clears = [inf if case.cleared_s is None else case.cleared_s for case in cases if case.clearable]
    return {
        "cases": len(cases),
        "not_watched": len(every) - len(cases),
        "recall": recall(cases).document(),
        "noticed": Share(len(noticed), len(cases)).document(),
        "late": sum(case.detected_s is not None and not case.in_time for case in cases),
        "delay_s": {
            name: percentile(delays, p) for name, p in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
        },
        "attribution": {
            name: share_of(getattr(case, name) for case in found).document()
            for name in ("top1", "top3", "level")
        },
        "class": share_of(case.in_time for case in noticed).document(),
        "duplicates_per_incident": _mean(case.duplicates for case in found),
        "secondaries_per_incident": _mean(case.secondaries for case in found),
        "flaps_per_incident": _mean(case.flaps for case in found),
        "misnamed": sum(case.misnamed for case in cases),
        "misplaced": sum(case.misplaced for case in cases),
        "too_loud": sum(case.too_loud for case in cases),
        "clear_s": {"p50": percentile(clears, 0.5), "p90": percentile(clears, 0.9)},
        "not_cleared": sum(case.clearable and case.cleared_s is None for case in cases),
    }


def _mean(values: Iterable[int]) -> float | None:
    listed = list(values)
    return sum(listed) / len(listed) if listed else None
