"""On a small simulated fleet of another seed than any it was tuned on: stalls are told in time of
whom they should, checkpoints never.
"""

from __future__ import annotations

import pytest

from detectors.hang import Hang
from evaluation.metrics.alerts import alerts_of
from evaluation.metrics.match import Case, match
from evaluation.metrics.panel import Candidate, Panel, judge
from evaluation.metrics.scope import Scope
from evaluation.runs.truths import plain_truths
from pipeline.finding import Finding
from simulator.fleet import Run, load_scenario, render

SEED, NODES, HOURS = 71, 3, 3.5
PERIODS_S = dict.fromkeys(("nvml", "infiniband", "kmsg", "jobs"), 10.0) | {"host": 60.0}


def heard(run: Run, scope: Scope) -> tuple[list[Finding], list[Case]]:
    """What it says about a run, and what each fault got."""
    contestant = Candidate("hang", scope, Panel(lambda: [Hang()], scope), restarts=False)
    until_ns = judge(run.observations(), [contestant], PERIODS_S)
    cases, _ = match(plain_truths(run), alerts_of(contestant.findings), until_ns)
    return contestant.findings, [case for case in cases if case.watched]


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["node", "fleet"])
@pytest.mark.parametrize("scenario", ["F25", "F26"])
def test_stalls_are_told_in_time_of_whom_they_should(scenario: str, scope: Scope) -> None:
    """A dead rank, a node without data, a file system that hangs."""
    findings, cases = heard(
        render(load_scenario(scenario), SEED, days=HOURS / 24, nodes=NODES), scope
    )
    assert cases
    assert all(case.in_time for case in cases), [(case.entity, case.detected_s) for case in cases]
    blamed = {f.device.kind for f in findings if f.severity == "page"}
    if scope == "fleet":  # one agent alone blames its own node for what the whole job does
        assert all(case.top1 for case in cases)
    assert blamed <= {"gpu"} if scenario == "F25" else blamed <= {"node", "job"}


@pytest.mark.slow
def test_checkpoints_of_twenty_minutes_are_silent() -> None:
    """The first of them takes forty."""
    findings, _ = heard(render(load_scenario("H01"), SEED, days=HOURS / 24, nodes=NODES), "fleet")
    assert findings == []
