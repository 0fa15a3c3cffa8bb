"""Only detectors whose false alarms are known may page."""

from __future__ import annotations

from detectors import DETECTORS
from detectors.availability import Availability
from detectors.service import PROVED, OnTrial, in_service
from tests.fakes import FakeClock, gpu_frame, observed

LOST = 1


def test_every_detector_is_asked_and_those_not_proved_are_on_trial() -> None:
    """None is left out, none pages by mistake, and PROVED names detectors that exist."""
    asked = in_service()
    assert [detector.name for detector in asked] == list(DETECTORS)
    assert {detector.name for detector in asked if not isinstance(detector, OnTrial)} == PROVED


def test_a_finding_on_trial_is_a_record_with_everything_else_untouched() -> None:
    """Severity apart, it is what the detector said, under the same id."""
    clock = FakeClock()
    seen = observed(clock, gpu_frame(clock, {"state": LOST}))
    (free,), (tried,) = Availability().update(seen), OnTrial(Availability()).update(seen)
    assert (free.severity, tried.severity) == ("page", "record")
    assert (free.id, free.summary, free.evidence) == (tried.id, tried.summary, tried.evidence)
