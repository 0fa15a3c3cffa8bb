"""Only detectors whose false alarms are known may page."""

from __future__ import annotations

from detectors import DETECTORS
from detectors.availability import Availability
from detectors.kit.snapshot import Snapshotable, dump, load
from detectors.paging import PROVED, ShadowMode, in_service, judge_in_service
from detectors.shadow import MISSING
from pipeline.finding import Finding
from pipeline.frame import Device
from pipeline.interfaces import Detector
from pipeline.observation import Event, Observation
from pipeline.selfmetrics import SelfMetrics
from tests.fakes import FakeClock, gpu_frame, observed

LOST = 1


def may_page(detectors: list[Detector]) -> set[str]:
    """Names of those that are not in shadow mode."""
    return {one.name for one in detectors if not (isinstance(one, ShadowMode) and one.active)}


def test_every_detector_is_asked_and_those_not_proved_are_in_shadow_mode() -> None:
    """None is left out, none pages by mistake, and PROVED names detectors that exist."""
    asked = in_service()
    assert [detector.name for detector in asked] == list(DETECTORS)
    assert may_page(asked) == PROVED


def test_a_detector_in_shadow_mode_says_what_it_lacks() -> None:
    """One sentence at least for each that may not page, and for no other."""
    assert set(MISSING) == set(DETECTORS) - PROVED
    assert all(text.endswith(".") and len(text) > 40 for text in MISSING.values())


def test_a_site_enables_paging_by_name_or_for_all() -> None:
    """Those that it names, beside those that are proved; the others stay as they are."""
    for names, free in ((("straggler",), PROVED | {"straggler"}), (("all",), frozenset(DETECTORS))):
        asked = in_service(enabled=names)
        assert may_page(asked) == free


def test_a_site_disables_paging_by_name_or_for_all() -> None:
    """Also where it enabled paging for it; a replay without shadow mode has the severities that
    detectors give.
    """
    for names, free in ((("hang",), PROVED - {"hang"}), (("all",), frozenset())):
        asked = in_service(enabled=("hang",), disabled=names)
        assert may_page(asked) == free
    assert may_page(in_service(shadow=False, disabled=("all",))) == set(DETECTORS)


def test_a_finding_in_shadow_mode_is_a_record_with_everything_else_untouched() -> None:
    """Severity apart, it is the detector's finding, under the same id."""
    clock = FakeClock()
    seen = observed(clock, gpu_frame(clock, {"state": LOST}))
    (free,), (tried,) = Availability().update(seen), ShadowMode(Availability()).update(seen)
    assert (free.severity, tried.severity) == ("page", "record")
    assert (free.id, free.summary, free.evidence) == (tried.id, tried.summary, tried.evidence)


def test_shadow_mode_keeps_the_memory_of_the_detector() -> None:
    """Paging can be enabled later without learning again."""
    clock = FakeClock()
    seen = observed(clock, gpu_frame(clock, {"state": LOST}))
    tried, free = ShadowMode(Availability()), Availability()
    list(tried.update(seen))
    assert load(dump([tried]), [free]) == ()
    assert list(free.update(seen)) == []


def test_a_detector_without_memory_has_none_in_shadow_mode() -> None:
    """It is named as cold, not restored as something it is not."""

    class Forgets:
        name = "forgets"

        def update(self, _observation: Observation) -> list[Finding]:
            return []

    assert not isinstance(ShadowMode(Forgets()), Snapshotable)


def test_the_judge_of_an_agent_tells_incidents_with_the_severities_of_service() -> None:
    """A lost GPU is a page; a detector in shadow mode opens nothing."""
    clock = FakeClock()
    judge = judge_in_service(SelfMetrics(), clock, {})
    judged = judge.judge(observed(clock, gpu_frame(clock, {"state": LOST})))
    assert [(i.fault, i.severity) for i in judged.incidents] == [("gpu_lost", "page")]
    assert {memory.name for memory in judge.memories} == {"judge", "incidents", *DETECTORS}


def change(kind: str, clock: FakeClock, detector: str = "availability") -> Observation:
    """An event of the agent's labels."""
    at = (clock.time_ns(), clock.monotonic_ns())
    event = Event(*at, Device("n1", "node", "n1"), kind, {"detector": detector})
    return Observation("operator", "n1", "boot", 0, *at, 0, (), (event,))


def test_a_detector_leaves_and_enters_shadow_mode_when_its_labels_say_so() -> None:
    """From that event on, and not by one of another detector."""
    clock = FakeClock()
    for kind, other, severity in (
        ("shadow_mode_left", "shadow_mode_entered", "page"),
        ("shadow_mode_entered", "shadow_mode_left", "record"),
    ):
        shadow = ShadowMode(Availability(), active=severity == "page")
        assert not list(shadow.update(change(kind, clock)))
        shadow.update(change(other, clock, "xid"))
        (finding,) = shadow.update(observed(clock, gpu_frame(clock, {"state": LOST})))
        assert finding.severity == severity
        assert [one.severity for one in shadow.current()] in ([], [severity])


def test_a_detector_that_a_site_put_into_shadow_mode_stays_there() -> None:
    """No label overrides the configuration."""
    clock = FakeClock()
    named = {one.name: one for one in in_service(disabled=("availability",), allowed=DETECTORS)}
    shadow = named["availability"]
    shadow.update(change("shadow_mode_left", clock))
    assert may_page([shadow]) == set()
    assert may_page(list(named.values())) == set(DETECTORS) - {"availability"}
