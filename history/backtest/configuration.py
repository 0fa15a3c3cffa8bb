"""The configuration that follows from a backtest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from evaluation.metrics.intervals import poisson_interval
from history.backtest.figures import BUDGET, OfDetector, by_detector
from history.backtest.judged import History
from history.backtest.truths import Fault
from pipeline.clock import SECOND_NS

# Chosen on the first two thirds, counted on the last: figures of the time in which a detector was
# chosen flatter it.
CHOOSE = 2 / 3
ONE_SIDED = 0.9  # a two-sided interval of 90 % has a one-sided 95 % bound at each end


@dataclass(frozen=True, slots=True)
class Proposal:
    """``enable`` are detectors in shadow mode that meet the budget, ``disable`` installed ones that
    break it, both by the first two thirds of a history; ``pages`` and ``unknown`` of those to be
    enabled in the last third.
    """

    enable: tuple[str, ...]
    disable: tuple[str, ...]
    split_ns: int
    pages: int
    unknown: int
    months: float

    def document(self) -> dict[str, Any]:
        """As a configuration of the agent."""
        keys = {"off_trial": list(self.enable), "on_trial": list(self.disable)}
        return {"detectors": {key: names for key, names in keys.items() if names}}

    def text(self, about: str) -> str:
        """The configuration as a file, with its reason."""
        lines = [f"# {line}" for line in about.splitlines()]
        sections = self.document()["detectors"]
        if sections:
            lines.append("detectors:")
            lines += [f"  {key}: [{', '.join(names)}]" for key, names in sections.items()]
        return "\n".join(lines) + "\n"


def proposal(history: History, known: Sequence[Fault] | None) -> Proposal:
    """What so much history shows."""
    split_ns = history.begin_ns + round((history.end_ns - history.begin_ns) * CHOOSE)
    first = replace(history, alerts=[a for a in history.alerts if a.incident.opened_ns < split_ns])
    last = [alert for alert in history.alerts if alert.incident.opened_ns >= split_ns]
    found = by_detector(first, known, history.gpu_months * CHOOSE)
    enable = candidates(found)
    # reboots alone are no record of faults, beside which a page could be shown to be false
    recorded = any({*one.sources} - {"reboot"} for one in known or ())
    disable = offenders(found) if recorded else ()
    rest = replace(history, alerts=[one for one in last if {*one.detectors[:1]} & {*enable}])
    later = by_detector(rest, known, history.gpu_months * (1 - CHOOSE))
    return Proposal(
        enable,
        disable,
        split_ns - split_ns % SECOND_NS,
        sum(one.figures.pages for one in later),
        sum(one.figures.unknown for one in later),
        history.gpu_months * (1 - CHOOSE),
    )


def candidates(found: Sequence[OfDetector]) -> tuple[str, ...]:
    """Detectors in shadow mode whose pages of which the site knew nothing are shown to be within
    the budget, by the upper bound.
    """
    return tuple(
        sorted(
            one.name
            for one in found
            if not one.installed and one.judgeable.is_judged and _bounds(one)[1] <= BUDGET
        )
    )


def offenders(found: Sequence[OfDetector]) -> tuple[str, ...]:
    """Installed detectors whose pages are shown to be beyond the budget."""
    return tuple(sorted(one.name for one in found if one.installed and _bounds(one)[0] > BUDGET))


def _bounds(one: OfDetector) -> tuple[float, float]:
    """One-sided 95 % bounds of its rate of pages of which the site knew nothing."""
    return poisson_interval(one.figures.unknown, one.figures.months, ONE_SIDED)
