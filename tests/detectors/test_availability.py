"""Lost, hung and absent GPUs become findings on the right device, at the right time, and clear."""

from __future__ import annotations

from dataclasses import replace

import pytest

from detectors.availability import DRIVER_HUNG, Availability
from pipeline.finding import Finding
from tests.fakes import FakeClock, gpu, gpu_frame, observed

LOST, HUNG, ABSENT, UNREADABLE, PASSTHROUGH = 1, 2, 3, 4, 5


class Node:
    """Two GPUs whose states a test sets, one frame a second."""

    def __init__(self) -> None:
        self.clock, self.detector, self.boot = FakeClock(), Availability(), "boot-1"

    def seconds(self, n: int, *states: int | None) -> list[Finding]:
        findings: list[Finding] = []
        for _ in range(n):
            self.clock.advance(1.0)
            seen = observed(self.clock, gpu_frame(self.clock, *({"state": s} for s in states)))
            findings += self.detector.update(replace(seen, boot_id=self.boot))
        return findings

    def reboots(self, seconds: float) -> None:
        """The node comes back after so long, with a monotonic clock that began
        again; the agent remembers.
        """
        again = FakeClock(self.clock.time_ns() + round(seconds * 1e9))
        detector = Availability()
        detector.restore(self.detector.state())
        self.clock, self.detector, self.boot = again, detector, "boot-2"


@pytest.mark.slow
def test_healthy_gpus_are_silent() -> None:
    """No findings on a quiet hour."""
    assert Node().seconds(3600, 0, 0) == []


def test_a_lost_gpu_is_told_at_once_and_once() -> None:
    """One page, on the GPU that is lost, in the first frame."""
    node = Node()
    findings = node.seconds(100, 0, LOST)
    assert [(f.device, f.fault, f.phase, f.severity) for f in findings] == [
        (gpu(1), "gpu_lost", "onset", "page")
    ]
    assert findings[0].onset_ns == findings[0].time_ns


def test_a_short_hang_is_silent_and_a_long_one_is_told() -> None:
    """Ten seconds of patience with a slow driver."""
    node = Node()
    assert node.seconds(10, 0, HUNG) == []
    assert node.seconds(5, 0, 0) == []
    assert [f.fault for f in node.seconds(20, HUNG, 0)] == ["gpu_hung"]


def test_a_finding_clears_with_the_same_id_when_the_gpu_answers() -> None:
    """Onset and clearance are one finding."""
    node = Node()
    onset, cleared = [*node.seconds(5, LOST, 0), *node.seconds(1, 0, 0)]
    assert (onset.phase, cleared.phase) == ("onset", "cleared")
    assert onset.id == cleared.id


def test_a_hung_gpu_that_turns_out_lost_is_two_faults_of_one_gpu() -> None:
    """The first clears when the second begins."""
    node = Node()
    node.seconds(15, HUNG, 0)
    assert [(f.fault, f.phase) for f in node.seconds(1, LOST, 0)] == [
        ("gpu_hung", "cleared"),
        ("gpu_lost", "onset"),
    ]


def test_unobserved_states_change_nothing() -> None:
    """NaN neither begins nor ends a fault."""
    node = Node()
    node.seconds(1, LOST, 0)
    assert node.seconds(50, None, None) == []


@pytest.mark.slow
def test_a_gpu_that_is_missing_after_a_reboot_is_told_a_minute_after_it() -> None:
    """Whatever the uptime of the boot before, in whose last seconds the driver was gone; and not at
    once, as the GPU may be coming up.
    """
    node = Node()
    node.seconds(3600, 0, 0)
    node.seconds(5, 0, ABSENT)
    node.reboots(240)
    assert node.seconds(60, 0, ABSENT) == []
    (findings,) = node.seconds(2, 0, ABSENT)
    assert (findings.device, findings.fault, findings.evidence[0][:21]) == (
        gpu(1),
        "gpu_absent",
        "state absent for 60 s",
    )


def test_a_finding_outlives_a_reboot_and_clears_after_it() -> None:
    """It is reported once, and not forgotten."""
    node = Node()
    onset, *_ = node.seconds(5, LOST, 0)
    node.reboots(240)
    assert node.seconds(90, LOST, 0) == []
    assert [(f.phase, f.id) for f in node.seconds(1, 0, 0)] == [("cleared", onset.id)]


def test_a_driver_that_is_replaced_for_ten_minutes_is_silent() -> None:
    """H10: for so long no GPU of the node can be read."""
    node = Node()
    assert [*node.seconds(600, UNREADABLE, UNREADABLE), *node.seconds(60, 0, 0)] == []


@pytest.mark.slow
def test_a_driver_that_stays_away_is_a_ticket_that_says_so() -> None:
    """After a quarter of an hour nobody is replacing it any more."""
    findings = Node().seconds(1000, UNREADABLE, UNREADABLE)
    assert [(f.severity, f.fault) for f in findings] == [("ticket", "gpu_unreadable")] * 2
    assert "driver is not loaded" in findings[0].summary


def test_one_gpu_that_cannot_be_read_is_a_ticket_after_a_minute() -> None:
    """Its neighbour can."""
    assert [(f.device, f.severity) for f in Node().seconds(70, 0, UNREADABLE)] == [
        (gpu(1), "ticket")
    ]


@pytest.mark.slow
def test_a_gpu_that_is_given_to_a_virtual_machine_is_no_fault() -> None:
    """Nor was it one, where its driver was gone first: the page ends."""
    node = Node()
    assert node.seconds(3600, 0, PASSTHROUGH) == []
    assert [
        f.phase for f in (*node.seconds(70, ABSENT, 0), *node.seconds(3600, PASSTHROUGH, 0))
    ] == ["onset", "cleared"]


def test_a_page_about_a_gpu_leaves_with_it() -> None:
    """Another one sits in its slot."""
    node = Node()
    (page,) = node.seconds(5, 0, LOST)
    frame = gpu_frame(node.clock, {"state": 0}, {"state": 0})
    other = replace(gpu(1), id="GPU-new")
    node.clock.advance(1.0)
    findings = node.detector.update(
        observed(
            node.clock, replace(frame, devices=(gpu(0), other), mono_ns=node.clock.monotonic_ns())
        )
    )
    assert [(f.id, f.phase) for f in findings] == [(page.id, "cleared")]


def test_a_gpu_that_is_missing_all_along_does_not_hurry_a_driver_that_is_replaced() -> None:
    """The rest of the node is as unreadable as without it."""
    node = Node()
    assert [f.fault for f in node.seconds(70, 0, ABSENT)] == ["gpu_absent"]
    assert node.seconds(600, UNREADABLE, ABSENT) == []


def test_a_driver_that_hangs_is_one_page_about_the_node_before_any_gpu() -> None:
    """Calls about every GPU hang: three seconds later, and cleared when one answers."""
    node = Node()
    said = node.seconds(15, HUNG, HUNG)
    assert [(f.device.kind, f.fault, f.severity) for f in said] == [
        ("node", "driver_hung", "page"),
        ("gpu", "gpu_hung", "page"),
        ("gpu", "gpu_hung", "page"),
    ]
    assert (said[0].time_ns - said[0].onset_ns) / 1e9 == DRIVER_HUNG.after_s
    assert [(f.fault, f.phase) for f in node.seconds(1, HUNG, 0)] == [
        ("driver_hung", "cleared"),
        ("gpu_hung", "cleared"),
    ]


def test_one_gpu_alone_does_not_blame_its_driver() -> None:
    """Nobody can say which of them hangs."""
    assert {f.fault for f in Node().seconds(20, HUNG)} == {"gpu_hung"}


def test_gpus_that_are_not_read_do_not_clear_the_driver() -> None:
    """A frame without a state says nothing."""
    node = Node()
    node.seconds(15, HUNG, HUNG)
    assert node.seconds(5, None, None) == []


def test_a_restart_remembers_a_driver_that_hangs() -> None:
    """It is reported once, and cleared."""
    node = Node()
    (page,) = node.seconds(5, HUNG, HUNG)
    restarted = Availability()
    restarted.restore(node.detector.state())
    node.detector = restarted
    assert [(f.id, f.phase) for f in node.seconds(1, 0, 0)] == [(page.id, "cleared")]


def test_a_lost_gpu_that_answers_late_on_a_busy_machine_is_still_lost() -> None:
    """Its calls return an error or miss their deadline by turns: one page until it is back."""
    node = Node()
    findings = node.seconds(5, 0, LOST)
    for _ in range(10):
        findings += node.seconds(15, 0, HUNG) + node.seconds(90, 0, UNREADABLE)
        findings += node.seconds(2, 0, LOST)
    assert [(f.fault, f.phase) for f in findings] == [("gpu_lost", "onset")]
    assert [(f.fault, f.phase) for f in node.seconds(1, 0, 0)] == [("gpu_lost", "cleared")]


def test_a_gpu_that_hangs_after_a_reboot_is_lost_no_more() -> None:
    """The driver of the new boot says what is wrong now."""
    node = Node()
    node.seconds(5, 0, LOST)
    node.reboots(120.0)
    assert [(f.fault, f.phase) for f in node.seconds(20, 0, HUNG)] == [
        ("gpu_lost", "cleared"),
        ("gpu_hung", "onset"),
    ]
