"""What is known of an incident when it opens, as numbers that a learnt model weighs.

The same whether the incident comes from a judge that runs or from a store, so that a model meets
later what it was fitted on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, log, log1p
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.kit.stateful import Commit, from_text_array, text_array
from pipeline.finding import Finding, Incident

HOUR_NS = 3600 * 10**9
DAY_NS = 24 * HOUR_NS
BURST_NS = HOUR_NS // 6  # the time within which findings are joined to an incident
KEPT_NS = 7 * DAY_NS
MAX_KEPT = 5_000  # openings of a week; beyond it the oldest are forgotten
FARTHEST = 7.0  # of a logarithm of value over expected: a factor of a thousand


@dataclass(frozen=True, slots=True)
class Opening:
    """An incident as it was reported first: its root's finding, and when (unix ns).

    ``value`` and ``expected`` as the finding has them, NaN where it is not a number.
    """

    detector: str
    fault: str
    severity: str
    kind: str
    host: str
    opened_ns: int
    value: float = float("nan")
    expected: float = float("nan")
    findings: int = 1
    jobs: int = 0


class FirstEvidence(NamedTuple):
    """What counts of the finding with an incident's first evidence, as it was first."""

    time_ns: int
    detector: str
    value: float
    expected: float


def opening_of(incident: Incident, finding: Finding | FirstEvidence) -> Opening:
    """Of an incident and the finding with its first evidence."""
    root = incident.root
    return Opening(
        finding.detector,
        incident.fault,
        incident.severity,
        root.kind,
        root.host,
        incident.opened_ns,
        finding.value,
        finding.expected,
        len(incident.findings),
        len(incident.jobs),
    )


class Openings:
    """Incidents that opened in the last week, of a fleet."""

    def __init__(self) -> None:
        self._kept: deque[tuple[int, str, str]] = deque(maxlen=MAX_KEPT)  # when, fault, host

    def take(self, opening: Opening) -> dict[str, float]:
        """The numbers of an incident that opens now, after those before it. Names with ``=`` are
        1 or absent.

        ``far``: |ln(value/expected)|; ``findings``, ``jobs``; ``alike``: incidents of its fault
        within a day; ``again``: incidents of its host within a week; ``burst``: incidents of any
        kind within ten minutes; counts as ln(1 + n).
        """
        at_ns = opening.opened_ns
        while self._kept and at_ns - self._kept[0][0] > KEPT_NS:
            self._kept.popleft()
        before = [one for one in self._kept if one[0] <= at_ns]
        counts = {
            "findings": opening.findings - 1,
            "jobs": opening.jobs,
            "alike": sum(f == opening.fault for t, f, _ in before if at_ns - t <= DAY_NS),
            "again": sum(h == opening.host for *_, h in before if opening.host),
            "burst": sum(at_ns - t <= BURST_NS for t, *_ in before),
        }
        self._kept.append((at_ns, opening.fault, opening.host))
        return {
            f"detector={opening.detector}": 1.0,
            f"fault={opening.fault}": 1.0,
            f"severity={opening.severity}": 1.0,
            f"kind={opening.kind}": 1.0,
            "far": _far(opening.value, opening.expected),
            **{name: log1p(max(count, 0)) for name, count in counts.items()},
        }

    def state(self) -> Mapping[str, NDArray[Any]]:
        """All of them, as JSON."""
        return {"kept": text_array([list(one) for one in self._kept])}

    def prepare(self, state: Mapping[str, NDArray[Any]]) -> Commit:
        """KeyError, TypeError or ValueError where it is something else."""
        kept = [(int(t), str(f), str(h)) for t, f, h in from_text_array(state["kept"])]
        return lambda: setattr(self, "_kept", deque(kept, maxlen=MAX_KEPT))


def _far(value: float, expected: float) -> float:
    if not (isfinite(value) and isfinite(expected) and value > 0 and expected > 0):
        return 0.0
    return float(np.clip(abs(log(value / expected)), 0.0, FARTHEST))
