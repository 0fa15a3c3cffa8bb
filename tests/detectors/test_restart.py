"""The judge of an agent over restarts: all detectors, increments and incidents go on
as if there had been none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from detectors import all_detectors
from detectors.incidents import Incidents
from detectors.kit.snapshot import dump, load
from pipeline.clock import SECOND_NS
from pipeline.judge import Judge
from pipeline.judged import JudgedObservation
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics
from simulator.fleet import load_scenario, render
from tests.contracts.noise import Noise
from tests.fakes import FakeClock

pytestmark = pytest.mark.slow

STEP_S = 10.0
PERIODS = dict.fromkeys(("nvml", "infiniband", "kmsg", "jobs"), STEP_S) | {"host": 60.0}


def fresh() -> Judge:
    """One that knows nothing, with detectors as they are: none is in shadow mode here, so that
    incidents come of them all.
    """
    return Judge(all_detectors(), SelfMetrics(), FakeClock(), periods_s=PERIODS, fusion=Incidents())


def restarted(judge: Judge) -> Judge:
    """Another process with the memory of this one: nobody in it is cold."""
    other = fresh()
    assert load(dump(judge.memories), other.memories) == ()
    return other


def words(judged: JudgedObservation) -> list[str]:
    """All findings, as text: two findings without a number are equal too,
    though their NaN are not.
    """
    return [*map(repr, judged.findings), *map(repr, judged.incidents)]


def compare(observations: Iterable[Observation], stops: Sequence[int]) -> tuple[int, int]:
    """Both judges say the same of every observation; how many findings and incidents that were."""
    one, other = fresh(), fresh()
    findings = incidents = 0
    for number, observation in enumerate(observations):
        if number in stops or (incidents and number % 211 == 0):
            other = restarted(other)
        judged = one.judge(observation)
        assert words(other.judge(observation)) == words(judged), (
            f"observation {number} of {observation.source}"
        )
        findings, incidents = findings + len(judged.findings), incidents + len(judged.incidents)
    assert [repr(f) for f in other.standing()] == [repr(f) for f in one.standing()]
    assert other.open() == one.open()
    return findings, incidents


def test_nothing_is_noticed_in_a_wild_life() -> None:
    """Faults, gaps, resets, devices coming and going: restarted at the start, early, and again
    and again amid incidents.
    """
    findings, incidents = compare(Noise(5).observations(150), stops=(1, 2, 50, 100))
    assert findings > incidents > 0


@pytest.mark.parametrize("scenario", ["F06", "F14"])
def test_nothing_is_noticed_amid_a_fault(scenario: str) -> None:
    """A node of the simulated fleet loses a GPU, or its power brake pulls: restarts before
    it, amid it, and after it.
    """
    run = render(
        load_scenario(scenario),
        3,
        magnitude="nominal",
        split="dev",
        step_s=STEP_S,
        days=0.1,
        nodes=1,
    )
    onset_ns = run.truth[0].onset_ns
    around = (o for o in run.observations() if -600 < (o.time_ns - onset_ns) / SECOND_NS < 1200)
    _, incidents = compare(around, stops=(1, 50, 90, 100, 110, 150, 200))
    assert incidents
