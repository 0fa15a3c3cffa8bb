"""The figures of a backtest: per detector and in all, with exact intervals."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from detectors import PAGES
from detectors.paging import PROVED
from evaluation.metrics.intervals import poisson_interval, share_interval
from history.backtest.judged import Alert, History
from history.backtest.known import Known, explained

BUDGET = 0.0015  # false pages per GPU-month: facts of the false-alarm budget, docs/scoring.md


# What these judge is in what an agent reads, in no column: the source that must be there.
SOURCES = {"nccl": "nccl", "host": "kmsg"}


@dataclass(frozen=True, slots=True)
class Figures:
    """Alerts of some detectors: pages and tickets, pages per GPU-month with its 95 % interval, and
    of how many the site knew a fault (None: nothing is known of the site), with the interval of
    that share.
    """

    pages: int
    tickets: int
    rate: float
    rate_interval: tuple[float, float]
    known: int | None
    share_interval: tuple[float, float]


@dataclass(frozen=True, slots=True)
class OfDetector:
    """A detector's alerts, whether it alerts as installed, and what it shows of its evidence
    (columns, or a source) that the history has, and lacks.
    """

    name: str
    installed: bool
    figures: Figures
    has: tuple[str, ...]
    lacks: tuple[str, ...]

    @property
    def is_judged(self) -> bool:
        """Whether it alerted, or the history has something that it judges."""
        alerted = self.figures.pages or self.figures.tickets
        return bool(alerted or (self.has and SOURCES.get(self.name, "") not in self.lacks))


def figures(
    alerts: Sequence[Alert], months: float, known: Sequence[Known] | None, end_ns: int
) -> Figures:
    """Figures of some alerts."""
    pages = [alert for alert in alerts if alert.severity == "page"]
    right = None if known is None else sum(explained(alert, known, end_ns) for alert in alerts)
    return Figures(
        len(pages),
        len(alerts) - len(pages),
        len(pages) / months if months else 0.0,
        poisson_interval(len(pages), months),
        right,
        (0.0, 1.0) if right is None else share_interval(right, len(alerts)),
    )


def by_detector(history: History, known: Sequence[Known] | None) -> list[OfDetector]:
    """Every detector, those with alerts first."""
    found = []
    for name, page in PAGES.items():
        own = [alert for alert in history.alerts if name in alert.detectors[:1]]
        shows = [(shown.kind, shown.column) for shown in page.shows]
        found.append(
            OfDetector(
                name,
                name in PROVED,
                figures(own, history.gpu_months, known, history.end_ns),
                _names(one for one in shows if one in history.columns),
                (
                    *_names(one for one in shows if one not in history.columns),
                    *({SOURCES[name]} - history.sources if name in SOURCES else ()),
                ),
            )
        )
    return sorted(found, key=lambda one: (-one.figures.pages, -one.figures.tickets, one.name))


def _names(columns: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(f"{kind}.{column}" for kind, column in columns)


def proves(months: float) -> float:
    """Pages per GPU-month that a history without any would rule out at 95 % on both sides.

    >>> round(proves(1536), 4)
    0.0024
    """
    return poisson_interval(0, months)[1]


def candidates(found: Collection[OfDetector]) -> list[str]:
    """Detectors in shadow mode whose pages the history shows to be within the budget: the upper
    bound of all of them, whether they were right or not.
    """
    return sorted(
        one.name
        for one in found
        if not one.installed and one.is_judged and one.figures.rate_interval[1] <= BUDGET
    )
