"""Scores are taken of readings ten seconds apart; the agent reads each second.

A slice of two faults shows that both come to the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from detectors import all_detectors
from detectors.incidents import Incidents
from detectors.throttle import BLOCK_S
from evaluation.metrics.match import Case, match
from evaluation.metrics.panel import Candidate, Panel, judge
from evaluation.runs.truths import plain_truths
from pipeline.observation import Observation
from simulator.fleet import Run, load_scenario, render
from simulator.fleet.plan import WARM_S

# the slice around the onset, which in the shortest run comes when the warm time is over
BEFORE_S, AFTER_S = 300, 200


def rendered(scenario: str, step_s: float) -> Run:
    """Two nodes and one fault."""
    return render(
        replace(load_scenario(scenario), cases=1),
        1,
        days=(WARM_S + AFTER_S) / 86_400,
        nodes=2,
        step_s=step_s,
    )


def slice_of(run: Run) -> Iterator[Observation]:
    """What is shown of a run: who holds the nodes, and everything from
    shortly before the onset on.
    """
    since_ns = run.topology.begin_ns + round((WARM_S - BEFORE_S) * 1e9)
    return (o for o in run.observations() if o.source == "jobs" or o.time_ns >= since_ns)


def judged(scenario: str, step_s: float) -> list[Case]:
    """Findings of all detectors over the joined frames; nothing but the fault may be reported."""
    run = rendered(scenario, step_s)
    ours = Candidate("ours", "fleet", Panel(all_detectors, "fleet", Incidents), restarts=False)
    periods = dict.fromkeys(("nvml", "infiniband", "kmsg", "jobs"), step_s) | {"host": 60.0}
    until_ns = judge(slice_of(run), [ours], periods)
    cases, stray = match(plain_truths(run), ours.alerts, until_ns)
    assert stray == []
    return list(cases)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["F06", "F14"])
def test_a_fault_read_each_second_is_found_as_it_is_every_ten(scenario: str) -> None:
    """A GPU off the bus (F06, by events) and a power brake in pulses (F14, by counters): the same
    case, found by then, within a block.
    """
    (scored,), (live,) = judged(scenario, 10.0), judged(scenario, 1.0)
    assert scored.detected_s is not None
    assert live.detected_s is not None
    assert abs(live.detected_s - scored.detected_s) <= BLOCK_S == 60
    assert max(live.detected_s, scored.detected_s) <= scored.deadline_s
    assert live.top1
    assert (live.id, live.entity, live.severity, live.top1) == (
        scored.id,
        scored.entity,
        scored.severity,
        scored.top1,
    )
