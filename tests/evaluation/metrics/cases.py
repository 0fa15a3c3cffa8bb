"""Small worlds for tests of scoring: one GPU at fault, alerts at seconds after its onset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from evaluation.metrics.alerts import Alert, AlertStatement
from evaluation.metrics.match import Case, match
from evaluation.metrics.truth import Entity, Truth
from pipeline.clock import SECOND_NS
from pipeline.finding import Severity

ONSET = 1_000 * SECOND_NS
FAULTY, PEER = Entity("gpu", "GPU-faulty"), Entity("gpu", "GPU-peer")
NODE, JOB = Entity("node", "n1"), Entity("job", "job-7")


def truth(
    *,
    kind: str = "gpu",
    exact: Sequence[Entity] = (FAULTY,),
    severity: Severity = "page",
    lasts_s: float = 3600,
    by_s: float = 300,
) -> Truth:
    """A thermal fault of one GPU of n1, whose peers in the node may be named by mistake and whose
    job may be reported as slow.
    """
    return Truth(
        id="t1",
        kind=kind,
        exact=frozenset(exact),
        onset_ns=ONSET,
        end_ns=ONSET + round(lasts_s * SECOND_NS),
        deadline_ns=ONSET + round(by_s * SECOND_NS),
        fault="thermal",
        severity=severity,
        wider=frozenset({NODE}),
        near=frozenset({PEER}),
        secondary={"straggler": frozenset({FAULTY, JOB})},
    )


def alert(
    at_s: float,
    *,
    entity: Entity = FAULTY,
    fault: str = "thermal",
    severity: Severity = "page",
    cleared_s: float | None = None,
    strength: float = inf,
    detector: str = "",
) -> Alert:
    """One alert with one statement, at this many seconds after the onset."""
    cleared_ns = 0 if cleared_s is None else ONSET + round(cleared_s * SECOND_NS)
    first = statement(at_s, entity, fault=fault, severity=severity, strength=strength)
    return Alert(f"{entity}-{fault}-{at_s}", detector or fault, [first], cleared_ns)


def statement(
    at_s: float,
    *ranked: Entity,
    fault: str = "thermal",
    severity: Severity = "page",
    strength: float = inf,
    also: Sequence[str] = (),
    times: Mapping[str, int] | None = None,
) -> AlertStatement:
    """One statement, at this many seconds after the onset."""
    return AlertStatement(
        ONSET + round(at_s * SECOND_NS),
        severity,
        strength,
        ranked or (FAULTY,),
        fault,
        frozenset(also),
        tuple((times or {}).items()),
    )


def case_of(*alerts: Alert, of: Truth | None = None, until_s: float = 10_000) -> Case:
    """What the fault got."""
    return match([of or truth()], alerts, ONSET + round(until_s * SECOND_NS))[0][0]


def strays_of(*alerts: Alert, of: Truth | None = None) -> list[Alert]:
    """The alerts that match no fault."""
    return match([of or truth()], alerts, ONSET + 10_000 * SECOND_NS)[1]
