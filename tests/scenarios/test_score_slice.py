"""A slice of the scenario suite on development seeds: what must never get worse.

The whole of it is `make score`.
"""

from __future__ import annotations

import pytest

from evaluation.metrics.false_alarms import FalseAlarm
from evaluation.metrics.match import Case
from evaluation.metrics.scope import Scope
from evaluation.runs.cadence import step_of
from evaluation.runs.run import OURS, Job, alarm_from, case_from, run_job
from evaluation.runs.scenarios import scenario as scenario_of

pytestmark = pytest.mark.slow

# Nothing happens in the first hour and a half of a run; then there is a case every few minutes, and
# each is watched to its deadline.
DAYS = 0.12


def judged(
    scenario: str, nodes: int, *, scope: Scope = "fleet", seed: int = 1, days: float = DAYS
) -> tuple[list[Case], list[FalseAlarm]]:
    """Cases that were watched to their deadline, and what was told of nothing."""
    step_s, ours = step_of(scenario_of(scenario)), ((OURS, scope),)
    job = Job(
        scenario, "nominal", seed, "dev", ours, days=days, nodes=nodes, agents=4, step_s=step_s
    )
    result = next(part for part in run_job(job)["results"] if part["contestant"] == OURS)
    cases = [case_from(case) for case in result["cases"]]
    return [case for case in cases if case.watched], [
        alarm_from(alarm) for alarm in result["false"]
    ]


@pytest.mark.parametrize("scenario", ["F03", "F06", "F07", "F15", "F18", "F22", "F28"])
def test_faults_that_are_facts_are_all_found_in_time_and_on_the_right_device(scenario: str) -> None:
    """An uncontained error, a lost GPU, a dead GSP, a lowered limit, lost lanes, a full counter, a
    lost adapter: no miss, no false alarm.
    """
    cases, false = judged(scenario, 16)
    assert cases
    assert [case.id for case in cases if not (case.in_time and case.top1)] == []
    assert false == []


@pytest.mark.parametrize("scenario", ["F14", "F16"])
def test_most_faults_that_need_statistics_are_found_in_time(scenario: str) -> None:
    """A brake between polls and a silent slow-down of 10 %: at least four of five, nobody blamed
    wrongly, nothing else told.
    """
    cases, false = judged(scenario, 16)
    found = [case for case in cases if case.in_time]
    assert len(found) >= 0.8 * len(cases) > 0
    assert [case.id for case in found if not case.top1] == []
    assert false == []


@pytest.mark.parametrize(("scenario", "nodes"), [("H00", 48), ("H01", 12), ("H18", 12)])
def test_healthy_life_is_silent(scenario: str, nodes: int) -> None:
    """Hours of work, of long checkpoints, and of drivers that answer with marks of no value:
    neither a page nor a ticket.
    """
    assert judged(scenario, nodes, days=0.2) == ([], [])


def test_one_agent_alone_finds_a_lost_gpu() -> None:
    """With nothing but what one node knows."""
    cases, false = judged("F06", 16, scope="node", seed=2)
    assert cases
    assert all(case.in_time and case.top1 for case in cases)
    assert false == []
