"""The figures of a backtest: per detector and in all, with exact intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import quantiles

from detectors import PAGES
from detectors.paging import PROVED
from evaluation.metrics.intervals import poisson_interval, share_interval
from history.backtest.judgeable import Judgeable
from history.backtest.judged import Alert, History
from history.backtest.truths import Fault, Match, is_explained, matches

BUDGET = 0.0015  # false pages per GPU-month: facts of the false-alarm budget, docs/scoring.md


@dataclass(frozen=True, slots=True)
class Figures:
    """Alerts of some detectors in GPU-months: pages and tickets; ``unknown`` pages are those of
    which the site knew no fault (all, where nothing is known), with the exact 95 % interval of
    their rate per GPU-month; ``right`` of the ``comparable`` alerts those of which it knew one
    (None: nothing is known), with the interval of their share. What is about a job alone cannot be
    compared: a site's record is of nodes.
    """

    pages: int
    tickets: int
    months: float
    unknown: int
    rate_interval: tuple[float, float]
    right: int | None
    comparable: int
    precision_interval: tuple[float, float]


@dataclass(frozen=True, slots=True)
class OfDetector:
    """A detector's alerts, whether it alerts as installed, and where it can judge."""

    judgeable: Judgeable
    installed: bool
    figures: Figures

    @property
    def name(self) -> str:
        """The detector's."""
        return self.judgeable.name


@dataclass(frozen=True, slots=True)
class Recall:
    """Of the faults that the site knew: how many had an alert, with the exact 95 % interval of the
    share, and quartiles of the lead in seconds (None below two).
    """

    found: int
    faults: int
    interval: tuple[float, float]
    leads_s: tuple[float, float, float] | None


def figures(
    alerts: Sequence[Alert], months: float, known: Sequence[Fault] | None, end_ns: int
) -> Figures:
    """Figures of some alerts."""
    pages = [alert for alert in alerts if alert.severity == "page"]
    unknown = [alert for alert in pages if not (known and is_explained(alert, known, end_ns))]
    of_nodes = [alert for alert in alerts if alert.incident.root.host]
    right = None if known is None else sum(is_explained(one, known, end_ns) for one in of_nodes)
    return Figures(
        len(pages),
        len(alerts) - len(pages),
        months,
        len(unknown),
        poisson_interval(len(unknown), months),
        right,
        len(of_nodes),
        (0.0, 1.0) if right is None else share_interval(right, len(of_nodes)),
    )


def by_detector(
    history: History, known: Sequence[Fault] | None, months: float | None = None
) -> list[OfDetector]:
    """Every detector, those with alerts first."""
    months = history.gpu_months if months is None else months
    where = {one.name: one for one in history.judgeable}
    found = []
    for name in PAGES:
        own = [alert for alert in history.alerts if name in alert.detectors[:1]]
        judgeable = where.get(name, Judgeable(name, 0, 0, ()))
        share = judgeable.nodes / judgeable.of if judgeable.of else 0.0
        found.append(
            OfDetector(
                judgeable, name in PROVED, figures(own, months * share, known, history.end_ns)
            )
        )
    return sorted(found, key=lambda one: (-one.figures.pages, -one.figures.tickets, one.name))


def recall(found: Sequence[Match]) -> Recall:
    """Of matched faults."""
    leads = [one.lead_s for one in found if one.lead_s is not None]
    quartiles = quantiles(leads, n=4, method="inclusive") if len(leads) > 1 else None
    return Recall(
        len(leads),
        len(found),
        share_interval(len(leads), len(found)),
        None if quartiles is None else (quartiles[0], quartiles[1], quartiles[2]),
    )


def unplanned(known: Sequence[Fault], alerts: Sequence[Alert], end_ns: int) -> list[Match]:
    """Faults that no operator had planned, each with its first alert."""
    return matches([one for one in known if not one.is_planned], alerts, end_ns)


def proves(months: float) -> float:
    """False pages per GPU-month that a history without any rules out at 95 %: one-sided, Garwood.

    >>> round(proves(1536), 5)
    0.00195
    """
    return poisson_interval(0, months, 0.9)[1]
