"""Only detectors whose false alarms are known may page."""

from __future__ import annotations

from detectors import DETECTORS
from detectors.availability import Availability
from detectors.service import PROVED, OnTrial, in_service, judge_in_service
from detectors.snapshot import Snapshotable, dump, load
from pipeline.finding import Finding
from pipeline.observation import Observation
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import FakeClock, gpu_frame, observed

LOST = 1


def test_every_detector_is_asked_and_those_not_proved_are_on_trial() -> None:
    """None is left out, none pages by mistake, and PROVED names detectors that exist."""
    asked = in_service()
    assert [detector.name for detector in asked] == list(DETECTORS)
    assert {detector.name for detector in asked if not isinstance(detector, OnTrial)} == PROVED


def test_a_site_takes_detectors_off_trial_by_name_or_all() -> None:
    """Those that it names, beside those that are proved; the others stay as they are."""
    for names, free in ((("straggler",), PROVED | {"straggler"}), (("all",), frozenset(DETECTORS))):
        asked = in_service(off_trial=names)
        assert {detector.name for detector in asked if not isinstance(detector, OnTrial)} == free


def test_a_site_that_wants_records_only_gets_them() -> None:
    """Whoever is paged wrongly names the detector and has quiet; a replay without trials still says what each would have said."""
    for names, free in ((("hang",), PROVED - {"hang"}), (("all",), frozenset())):
        asked = in_service(off_trial=("hang",), put_on_trial=names)
        assert {detector.name for detector in asked if not isinstance(detector, OnTrial)} == free
    assert not [one for one in in_service(on_trial=False, put_on_trial=("all",)) if isinstance(one, OnTrial)]


def test_a_finding_on_trial_is_a_record_with_everything_else_untouched() -> None:
    """Severity apart, it is what the detector said, under the same id."""
    clock = FakeClock()
    seen = observed(clock, gpu_frame(clock, {"state": LOST}))
    (free,), (tried,) = Availability().update(seen), OnTrial(Availability()).update(seen)
    assert (free.severity, tried.severity) == ("page", "record")
    assert (free.id, free.summary, free.evidence) == (tried.id, tried.summary, tried.evidence)


def test_a_detector_on_trial_remembers_as_it_does_free() -> None:
    """Its memory is the detector's own: one that is proved later takes over what it learnt on trial."""
    clock = FakeClock()
    seen = observed(clock, gpu_frame(clock, {"state": LOST}))
    tried, free = OnTrial(Availability()), Availability()
    list(tried.update(seen))
    assert load(dump([tried]), [free]) == ()
    assert list(free.update(seen)) == []


def test_a_detector_without_memory_has_none_on_trial() -> None:
    """It is named as cold, not restored as something it is not."""

    class Forgets:
        name = "forgets"

        def update(self, _observation: Observation) -> list[Finding]:
            return []

    assert not isinstance(OnTrial(Forgets()), Snapshotable)


def test_the_judge_of_an_agent_tells_incidents_with_the_severities_of_service() -> None:
    """A lost GPU is a page; what is on trial opens nothing."""
    clock = FakeClock()
    judge = judge_in_service(SelfMetrics(), clock, {})
    judged = judge.judge(observed(clock, gpu_frame(clock, {"state": LOST})))
    assert [(i.fault, i.severity) for i in judged.incidents] == [("gpu_lost", "page")]
    assert {memory.name for memory in judge.memories} == {"judge", "incidents", *DETECTORS}
