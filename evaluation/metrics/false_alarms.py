"""False alarms per GPU-month and port-month, with exact intervals: the budget decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.metrics.alerts import Alert, AlertStatement
from evaluation.metrics.classes import class_of
from evaluation.metrics.intervals import poisson_interval
from pipeline.finding import Severity

MONTH_S = 30 * 86_400.0  # of one device


@dataclass(frozen=True, slots=True)
class Exposure:
    """Device-seconds that were watched with nothing wrong."""

    gpu_s: float = 0.0
    port_s: float = 0.0

    @property
    def gpu_months(self) -> float:
        """GPU-months of 30 days."""
        return self.gpu_s / MONTH_S

    @property
    def port_months(self) -> float:
        """Port-months of 30 days."""
        return self.port_s / MONTH_S

    def __add__(self, other: Exposure) -> Exposure:
        return Exposure(self.gpu_s + other.gpu_s, self.port_s + other.port_s)


@dataclass(frozen=True, slots=True)
class FalseAlarm:
    """An alert that matches no fault: its detector and fault, and its greatest strength as a ticket
    and as a page (-inf: never).
    """

    detector: str
    fault: str
    kind: str
    severity: Severity
    ticket: float
    page: float

    @property
    def of_port(self) -> bool:
        """Counted per port-month, all others per GPU-month."""
        return self.kind == "ib_port"


def false_alarms(alerts: Iterable[Alert]) -> list[FalseAlarm]:
    """Alerts that an operator would see.

    Records are no alarms; neither are tickets to the owner of a job about its own XIDs.
    """
    return [
        FalseAlarm(
            a.detector,
            class_of(a.fault),
            a.root.kind,
            a.severity,
            a.strength("ticket"),
            a.strength("page"),
        )
        for a in alerts
        if a.severity == "page"
        or (a.severity == "ticket" and not all(map(_of_program, a.statements)))
    ]


def _of_program(statement: AlertStatement) -> bool:
    return class_of(statement.fault) == "xid" and statement.ranked[0].kind == "job"


def rates(alarms: Sequence[FalseAlarm], exposure: Exposure) -> dict[str, Any]:
    """Pages and tickets separately, as JSON: count, rate and interval, and count by detector.

    Alarms about ports are counted per port-month, all others per GPU-month; ``of_all`` is both per
    GPU-month, since operators get both. A ticket is an alarm that never became a page.
    """
    return {"gpu_months": exposure.gpu_months, "port_months": exposure.port_months} | {
        f"{severity}s": {
            "of_all": rate(chosen, exposure.gpu_months),
            "per_gpu_month": rate([a for a in chosen if not a.of_port], exposure.gpu_months),
            "per_port_month": rate([a for a in chosen if a.of_port], exposure.port_months),
            "by_detector": dict(Counter(a.detector for a in chosen).most_common()),
        }
        for severity in ("page", "ticket")
        for chosen in [[a for a in alarms if a.severity == severity]]
    }


def rate(alarms: Sequence[FalseAlarm], months: float) -> dict[str, Any]:
    """So many in so many months, as JSON: count, rate and its exact 95 % interval; None
    where nothing was watched.
    """
    low, high = poisson_interval(len(alarms), months)
    return {
        "count": len(alarms),
        "rate": len(alarms) / months if months else None,
        "low95": low,
        "high95": high if months else None,
    }
