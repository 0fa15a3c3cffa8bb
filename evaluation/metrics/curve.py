"""Operating curves: how much recall each budget of false alarms buys, by cutting weak evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any

from evaluation.metrics.false_alarms import FalseAlarm
from evaluation.metrics.figures import Share
from evaluation.metrics.match import Case
from pipeline.finding import Severity

# False alarms per GPU-month: the page budget, a quarter of the ticket budget, the ticket budget,
# and what a tired team still reads.
BUDGETS = (0.0015, 0.005, 0.02, 0.1)


def cuts(alarms: Iterable[FalseAlarm], level: Severity, most: float) -> Mapping[str, float]:
    """The least strength of each detector's evidence that leaves at most ``most`` false alarms
    at this severity in all.

    Every detector that raised any gets an equal part of what may be raised; evidence must be
    stronger than the cut. Detectors that are not in the answer raised none and need no cut.
    """
    strengths: dict[str, list[float]] = {}
    for alarm in alarms:
        strength = alarm.page if level == "page" else alarm.ticket
        if strength > -inf:
            strengths.setdefault(alarm.detector, []).append(strength)
    share = int(most / len(strengths)) if strengths else 0
    return {
        detector: sorted(values, reverse=True)[share] if len(values) > share else -inf
        for detector, values in strengths.items()
    }


def found_with(case: Case, cut: Mapping[str, float]) -> bool:
    """Whether a case is still found in time without the evidence below the cut."""
    return any(
        evidence.delay_s <= case.deadline_s and evidence.strength > cut.get(evidence.detector, -inf)
        for evidence in case.evidence
    )


def operating_curve(
    cases: Sequence[Case], alarms: Sequence[FalseAlarm], months: float
) -> list[dict[str, Any]]:
    """Recall at each budget, as JSON, for cases of one class and the healthy fleet's alarms of the
    same class over these months.

    Cases of each severity are cut at their own severity. Where the months are too few to show a
    rate as low as the budget, the point is marked: its recall is then at no false alarm at all.
    """
    points = []
    for budget in BUDGETS:
        most = budget * months
        at = {level: cuts(alarms, level, most) for level in {case.severity for case in cases}}
        share = Share(sum(found_with(case, at[case.severity]) for case in cases), len(cases))
        points.append(
            {"budget_per_month": budget, "resolved": most >= 1, "recall": share.document()}
        )
    return points
