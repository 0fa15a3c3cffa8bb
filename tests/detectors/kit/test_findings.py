"""An open finding about a device keeps its identity until it has ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from detectors.kit.findings import FindingTracker, Verdict
from pipeline.clock import SECOND_NS, Instant
from pipeline.finding import Severity
from pipeline.frame import Device, frame_of

GPU = Device("n1", "gpu", "GPU-1")


def verdict(severity: Severity) -> Verdict:
    """A fault of this severity."""
    return Verdict("ecc", severity, "NONE", "Bits flip.", ("one",))


def test_a_finding_that_gets_worse_after_the_wall_clock_was_set_back_is_the_same() -> None:
    """Its id is made of its onset, which now lies in the future: metrics, store and
    incident know it by that.
    """
    tracker = FindingTracker("ecc")
    (first,) = tracker.holds(GPU, verdict("ticket"), Instant(1000 * SECOND_NS, 10 * SECOND_NS))
    (worse,) = tracker.holds(GPU, verdict("page"), Instant(400 * SECOND_NS, 20 * SECOND_NS))
    (ended,) = tracker.ends(GPU, "ecc", Instant(500 * SECOND_NS, 30 * SECOND_NS))
    assert [finding.phase for finding in (first, worse, ended)] == ["onset", "ongoing", "cleared"]
    assert first.id == worse.id == ended.id
    assert (worse.severity, worse.time_ns) == ("page", 400 * SECOND_NS)


def test_the_evidence_of_an_open_finding_is_what_was_last_true() -> None:
    """With its time, while nothing is reported again; severity and id stay."""
    tracker = FindingTracker("ecc")
    (first,) = tracker.holds(GPU, verdict("page"), Instant(1000 * SECOND_NS, 10 * SECOND_NS))
    assert tracker.current() == [first]
    again = Verdict("ecc", "ticket", "NONE", "Bits still flip.", ("two",))
    assert list(tracker.holds(GPU, again, Instant(1060 * SECOND_NS, 70 * SECOND_NS))) == []
    (now,) = tracker.current()
    assert (now.summary, now.evidence, now.severity) == ("Bits still flip.", ("two",), "page")
    assert (now.id, now.time_ns) == (first.id, 1060 * SECOND_NS)


def test_a_finding_that_goes_on_as_it_was_has_its_time() -> None:
    """Detectors whose words do not change say so without making them again."""
    tracker = FindingTracker("ecc")
    (first,) = tracker.holds(GPU, verdict("page"), Instant(1000 * SECOND_NS, 10 * SECOND_NS))
    tracker.still(GPU, "ecc", Instant(1060 * SECOND_NS, 70 * SECOND_NS))
    tracker.still(GPU, "other", Instant(1060 * SECOND_NS, 70 * SECOND_NS))
    assert [one.time_ns for one in tracker.current()] == [1060 * SECOND_NS]
    (ended,) = tracker.ends(GPU, "ecc", Instant(1070 * SECOND_NS, 80 * SECOND_NS))
    assert (ended.id, tracker.current()) == (first.id, [])


def test_faults_that_wait_for_the_end_of_their_rest_have_ids_of_their_own() -> None:
    """One burst of XIDs that is two faults of one GPU, both soon after the last of each."""
    tracker = FindingTracker("xid")
    faults = [replace(verdict("ticket"), fault=name) for name in ("xid/application", "xid/gpu")]
    for fault in faults:
        list(tracker.holds(GPU, fault, Instant(1000 * SECOND_NS, 10 * SECOND_NS)))
        list(tracker.ends(GPU, fault.fault, Instant(1010 * SECOND_NS, 20 * SECOND_NS)))
    for fault in faults:  # the same second is the onset of both
        again = Instant(1100 * SECOND_NS, 110 * SECOND_NS)
        assert list(tracker.holds(GPU, fault, again, 1100 * SECOND_NS)) == []
    updates = list(tracker.due(Instant(9000 * SECOND_NS, 8010 * SECOND_NS)))
    assert [finding.fault for finding in updates] == ["xid/application", "xid/gpu"]
    assert len({finding.id for finding in updates}) == 2


def test_what_happens_again_while_it_is_open_is_counted_and_reported() -> None:
    """An operator who knows of the first must hear of the second."""
    tracker = FindingTracker("host")
    (first,) = tracker.holds(GPU, verdict("ticket"), Instant(1000 * SECOND_NS, 10 * SECOND_NS))
    at = Instant(9000 * SECOND_NS, 8010 * SECOND_NS)
    (second,) = tracker.holds(GPU, verdict("ticket"), at, again_ns=8900 * SECOND_NS)
    assert (second.id, second.phase, second.times) == (first.id, "ongoing", 2)
    assert (first.again_ns, second.again_ns) == (0, 8900 * SECOND_NS)
    (worse,) = tracker.holds(GPU, verdict("page"), at)
    assert (worse.times, worse.again_ns) == (2, 8900 * SECOND_NS)


@pytest.mark.parametrize(
    ("fault", "reported"),
    [
        ("nvlink/link_down", True),
        ("straggler", False),
        ("ib_ber", False),
        ("thermal/hw_slowdown", False),
    ],
)
def test_a_page_that_comes_back_is_reported_at_once_where_it_is_certain(
    fault: str, reported: bool
) -> None:
    """A device states it; what is inferred may flicker, and rests for an hour."""
    tracker, page = FindingTracker("d"), replace(verdict("page"), fault=fault)
    list(tracker.holds(GPU, page, Instant(1000 * SECOND_NS, 10 * SECOND_NS)))
    list(tracker.ends(GPU, fault, Instant(1100 * SECOND_NS, 110 * SECOND_NS)))
    back = list(tracker.holds(GPU, page, Instant(1400 * SECOND_NS, 410 * SECOND_NS)))
    assert [finding.phase for finding in back] == ["onset"] * reported


def test_what_is_remembered_of_a_device_that_left_is_not_reported_again() -> None:
    """Another GPU is in its slot: a detector that still keeps its last values must not page."""
    tracker, bus = FindingTracker("d"), {"pci_bus_id": "0000:18:00.0"}
    old, new = Device("n1", "gpu", "GPU-1", bus), Device("n1", "gpu", "GPU-2", bus)
    page = replace(verdict("page"), fault="ecc/remap_failed")
    list(tracker.holds(old, page, Instant(1000 * SECOND_NS, 10 * SECOND_NS)))
    at = Instant(1100 * SECOND_NS, 110 * SECOND_NS)
    (ended,) = tracker.swapped(frame_of("gpu", [(new, {"state": 0})], at.time_ns, at.mono_ns), at)
    assert ended.phase == "cleared"
    assert list(tracker.holds(old, page, at)) == []
