"""Runs of several cadences: which are coarser, and what that changes."""

from __future__ import annotations

from typing import Any

from evaluation.runs.by_cadence import by_cadence
from evaluation.runs.cadence import STEP_S, step_of
from evaluation.runs.run import OURS
from evaluation.runs.scenarios import every_scenario
from evaluation.runs.suite import Claim, suite
from tests.evaluation.runs.results import alarm, case, part, result

READINGS = 4  # before a deadline


def at(step_s: float, one: dict[str, Any], *, compared: bool = False) -> dict[str, Any]:
    """A result whose readings were so far apart."""
    return one | {"job": one["job"] | {"step_s": step_s, "compared": compared}}


def test_a_fault_is_read_several_times_before_its_deadline() -> None:
    """Wherever readings are coarser than they need be."""
    coarse = [one for one in every_scenario().values() if one.verdict and step_of(one) > STEP_S]
    assert coarse
    for one in coarse:
        assert one.verdict is not None
        assert one.verdict.detect_by_s >= READINGS * step_of(one), one.id


def test_each_step_of_a_fault_is_compared_with_finer_readings() -> None:
    """In the scope in which the fault can be known, on the same seed and at the same size; the
    coarser run is judged in that scope too.
    """
    claim = Claim("test", 7, True, (), ("node", "fleet"), tuple(every_scenario()))
    jobs = suite(claim)
    compared = [job for job in jobs if job.compared]
    assert {step_of(every_scenario()[job.scenario]) for job in compared} == {15.0, 30.0}
    for job in compared:
        (other,) = (
            one
            for one in jobs
            if (one.scenario, one.seed, one.nodes) == (job.scenario, job.seed, job.nodes)
            and not one.compared
        )
        assert other.step_s > job.step_s
        assert set(job.contestants) <= set(other.contestants)
        assert job.contestants == ((OURS, every_scenario()[job.scenario].scope),)


def test_cases_of_another_verdict_are_named() -> None:
    """A case found in time at one step and late at the other differs; one found some seconds later
    does not.
    """
    fine = [case(100.0, id="F16/0"), case(590.0, id="F16/1")]
    coarse = [case(130.0, id="F16/0"), case(620.0, id="F16/1")]
    rows = by_cadence(
        [
            at(30.0, result("F16", part(cases=coarse))),
            at(10.0, result("F16", part(cases=fine, false=[alarm()])), compared=True),
        ]
    )
    (row,) = rows["compared"]
    assert row["step_s"] == [10.0, 30.0]
    assert (row["cases"], row["differ"], row["strays"]) == (2, ["F16/1"], [1, 0])


def test_healthy_life_is_counted_by_its_step() -> None:
    """Each step has its own exposure and false alarms; runs to be compared count nowhere."""
    rows = by_cadence(
        [
            at(60.0, result("H00", part(months=100.0))),
            at(60.0, result("H00", part(months=50.0, false=[alarm()]), seed=2)),
            at(10.0, result("H01", part(months=7.0))),
            at(1.0, result("H01", part(months=1.0)), compared=True),
        ]
    )["healthy"]
    assert [(row["step_s"], row["gpu_months"]) for row in rows] == [(10.0, 7.0), (60.0, 150.0)]
    assert [row["pages"]["of_all"]["count"] for row in rows] == [0, 1]
