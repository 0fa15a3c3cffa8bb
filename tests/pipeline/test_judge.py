"""The judge: increments, detectors, fusion; what it remembers, and what goes wrong beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from pipeline.catalog import agent
from pipeline.finding import Finding, Incident
from pipeline.judge import Judge
from pipeline.observation import Observation
from pipeline.plain import finding_from, incident_from, plain
from pipeline.selfmetrics import SelfMetrics
from tests.detectors.hot import Hot
from tests.fakes import FakeClock, gpu, gpu_frame, observed


class Each:
    """A fusion that makes an incident of each finding, under its id."""

    name = "each"

    def __init__(self) -> None:
        self.error: Exception | None = None

    def update(self, _observation: Observation, findings: Sequence[Finding]) -> list[Incident]:
        if self.error is not None:
            raise self.error
        return [
            Incident(
                f.id,
                f.device,
                f.fault,
                f.severity,
                f.action,
                f.onset_ns,
                (f.id,),
                f.summary,
                0 if f.active else f.time_ns,
            )
            for f in findings
        ]


class House:
    """A judge with a detector and a fusion, shown the temperature of one GPU each second."""

    def __init__(self) -> None:
        self.clock, self.metrics, self.fusion = FakeClock(), SelfMetrics(), Each()
        self.judge = Judge(
            [Hot()], self.metrics, self.clock, periods_s={"nvml": 1.0}, fusion=self.fusion
        )

    def see(self, *temperatures: float) -> list[tuple[list[str], list[str]]]:
        """Phases of findings and ids of incidents after each reading."""
        said: list[tuple[list[str], list[str]]] = []
        for value in temperatures:
            frame = gpu_frame(
                self.clock,
                {
                    "temperature_celsius": value,
                    "energy_millijoules": self.clock.monotonic_ns() // 10**6,
                },
            )
            judged = self.judge.judge(observed(self.clock, frame))
            said.append(([f.phase for f in judged.findings], [i.id for i in judged.incidents]))
            self.clock.advance(1)
        return said


def test_incidents_are_made_of_what_the_detectors_found() -> None:
    """With the same observation, in the same answer."""
    house = House()
    assert house.see(90, 90, 90)[-1][0] == ["onset"]
    assert [i.root for i in house.judge.open()] == [gpu(0)]


def test_a_fusion_that_raises_costs_its_incidents_and_nothing_else() -> None:
    """The findings are told all the same, it is counted, and works again
    with the next observation.
    """
    house = House()
    house.fusion.error = RuntimeError("oh")
    assert house.see(90, 90, 90)[-1] == (["onset"], [])
    assert house.metrics.value(agent.STAGE_FAILURES, "detector", "each", "RuntimeError") == 3
    house.fusion.error = None
    assert house.see(50)[-1][1]


def test_without_a_fusion_there_are_no_incidents() -> None:
    """Findings stay what they are."""
    house = House()
    house.judge = Judge([Hot()], house.metrics, house.clock, periods_s={})
    assert house.see(90, 90, 90)[-1] == (["onset"], [])


def test_what_stands_is_known_until_it_ends() -> None:
    """For whoever shows it after a restart."""
    house = House()
    house.see(90, 90, 90)
    assert [f.fault for f in house.judge.standing()] == ["thermal"]
    house.see(50)
    assert not house.judge.standing()
    assert not house.judge.open()


def test_another_judge_goes_on_with_the_memory() -> None:
    """The last samples bridge the gap: the first increment after it is that of the time
    between; open findings stay open.
    """
    house = House()
    house.see(90, 90, 90)
    other = Judge([Hot()], house.metrics, house.clock, periods_s={"nvml": 1.0}, fusion=Each())
    other.restore(house.judge.state())
    frame = gpu_frame(house.clock, {"energy_millijoules": house.clock.monotonic_ns() // 10**6})
    (seen,) = other.judge(observed(house.clock, frame)).observation.frames
    assert seen.increase("energy_millijoules").tolist() == [1000.0]
    assert list(map(repr, other.standing())) == list(map(repr, house.judge.standing()))
    assert other.open() == house.judge.open()


def test_what_a_detector_said_that_begins_anew_ends() -> None:
    """It no longer knows that it said so, and could never end it; what is
    still so it tells again.
    """
    house = House()
    house.see(90, 90, 90)
    house.judge.begins_anew(["hot"], house.judge.standing(), ())
    assert [phases for phases, _ in house.see(90, 90)] == [["cleared"], []]
    assert (house.judge.standing(), house.judge.open()) == ((), ())


def test_nothing_stays_of_a_source_that_is_forgotten() -> None:
    """Neither its last samples nor how detectors fare on it; another source keeps its own."""
    house = House()
    house.see(50)
    reading = observed(house.clock, gpu_frame(house.clock, {"energy_millijoules": 1}))
    house.judge.judge(replace(reading, source="other"))
    house.judge.forget(["other"])
    assert {source for source, _ in house.judge._rates} == {"nvml"}
    assert {source for _, source in house.judge._health} == {"nvml", ""}


def test_a_fusion_that_begins_anew_is_told_what_stands() -> None:
    """Its old incidents end, since it cannot end them; the faults behind
    them are incidents again.
    """
    house = House()
    house.see(90, 90, 90)
    (before,) = house.judge.open()
    house.judge.begins_anew(["each"], house.judge.standing(), house.judge.open())
    judged = house.judge.judge(
        observed(house.clock, gpu_frame(house.clock, {"temperature_celsius": 90}))
    )
    assert [(i.id, i.active) for i in judged.incidents] == [(before.id, False), (before.id, True)]
    assert len(house.judge.open()) == 1


def test_a_detector_that_failed_before_a_restart_ends_its_finding_after_it() -> None:
    """Under the same id: nobody is left with a finding that nothing can end."""
    clock, metrics = FakeClock(), SelfMetrics()

    class Broken(Hot):
        def update(self, observation: Observation) -> list[Finding]:
            raise RuntimeError(observation.source)

    first = Judge([Broken()], metrics, clock, periods_s={})
    (failed,) = first.judge(observed(clock, gpu_frame(clock, {}))).findings
    second = Judge([Hot()], metrics, clock, periods_s={})
    second.restore(first.state())
    (ended,) = second.judge(observed(clock, gpu_frame(clock, {}))).findings
    assert (ended.id, ended.phase) == (failed.id, "cleared")


@pytest.mark.parametrize("missing", ["findings", "nvml/gpu/last", "nvml/gpu/epoch"])
def test_a_memory_that_is_not_whole_is_refused(missing: str) -> None:
    """And the judge is as it was."""
    house = House()
    house.see(90, 90, 90)
    state = {name: array for name, array in house.judge.state().items() if name != missing}
    fresh = Judge([], house.metrics, house.clock, periods_s={})
    with pytest.raises((KeyError, ValueError)):
        fresh.restore(state)
    assert fresh.standing() == ()


def test_standing_findings_are_bounded() -> None:
    """A detector gone wild costs the oldest, not the memory."""

    class Wild:
        name = "wild"

        def update(self, observation: Observation) -> list[Finding]:
            one = Finding("wild", gpu(0), "outlier", "onset", "record", 0, 0, "Odd.")
            return [replace(one, onset_ns=(observation.seq * 1000 + n) * 1000) for n in range(1000)]

    clock = FakeClock()
    judge = Judge([Wild()], SelfMetrics(), clock, periods_s={})
    for seq in range(7):
        judge.judge(observed(clock, seq=seq))
    assert len(judge.standing()) == 5000
    assert judge.standing()[-1].onset_ns == (6 * 1000 + 999) * 1000


def test_open_findings_can_be_looked_at_as_their_detectors_see_them_now() -> None:
    """Between two reports, by id; detectors that cannot say are left out."""

    class Seeing(Hot):
        def current(self) -> list[Finding]:
            return [Finding("hot", gpu(0), "hot", "onset", "page", 0, 7000, "Still hot.")]

    judge = Judge([Hot(), Seeing()], SelfMetrics(), FakeClock(), periods_s={})
    assert [one.summary for one in judge.current().values()] == ["Still hot."]


def test_incidents_that_ended_survive_a_restart() -> None:
    """With the judge's own state; a state of a version that kept none is taken as well."""
    house = House()
    house.see(90, 90, 90, 20)
    (past,) = house.judge.past.incidents(house.clock.time_ns())
    fresh = Judge([], house.metrics, house.clock, periods_s={})
    fresh.restore(house.judge.state())
    assert [one.incident for one in fresh.past.incidents(house.clock.time_ns())] == [past.incident]
    state = dict(house.judge.state())
    document = json.loads(state.pop("findings").tobytes())
    del document["past"]
    # The name that it had before.
    state["told"] = np.frombuffer(json.dumps(document).encode(), np.uint8)
    fresh.restore(state)
    assert fresh.past.incidents(house.clock.time_ns()) == []


def test_an_incident_of_a_version_without_a_reason_for_its_end_can_be_read() -> None:
    """The log and the state of the versions before: without reason and jobs, and without times."""
    incident = Incident("1", gpu(0), "xid", "page", "NONE", 0, ("2",), "It left.")
    assert incident_from(plain(incident)[:-4]) == incident
    assert incident_from(plain(incident)[:-2]) == incident
    found = Finding("d", gpu(0), "xid", "onset", "page", 0, 0, "It left.", value=1.0, expected=0.0)
    assert finding_from(plain(found)[:-2]) == found
    with pytest.raises(ValueError, match="zip"):
        incident_from(plain(incident)[:-3])
