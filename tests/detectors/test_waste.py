"""Memory that nobody holds and GPUs that nobody uses."""

from __future__ import annotations

import pytest

from detectors.waste import Waste
from pipeline.frame import Device
from tests.detectors.feed import Feed, Number, relapse, updates

HOUR = 3600.0
MEMORY = 40 << 30
IDLE: dict[str, Number] = {
    "gpu_utilization_percent": 0,
    "memory_used_bytes": MEMORY,
    "compute_processes": 1,
    "graphics_processes": 0,
}
ORPHANED = {**IDLE, "compute_processes": 0}
WORKS = {**IDLE, "gpu_utilization_percent": 98}
FREE = {**ORPHANED, "memory_used_bytes": 2 << 20}


def gpus(number: int = 1) -> Feed:
    """Read once a minute."""
    return Feed(Waste(), gpus=number, period_s=60.0)


def test_memory_that_no_process_holds_is_a_ticket_after_ten_minutes() -> None:
    """The next job will find its memory taken."""
    feed = gpus()
    assert feed.run(540, **ORPHANED) == []
    (findings,) = feed.run(300, **ORPHANED)
    assert (findings.fault, findings.severity, findings.value, findings.unit) == (
        "waste/memory",
        "ticket",
        40.0,
        "gibibytes",
    )


@pytest.mark.parametrize(
    "change",
    [
        {"graphics_processes": 1},
        {"memory_used_bytes": 500 << 20},
        {"mig_mode_current": 1},
        {"compute_processes": None},
    ],
)
def test_memory_of_displays_drivers_and_instances_is_silent(change: dict[str, Number]) -> None:
    """It is held, little, or others' business; what is not read is no fault."""
    assert gpus().run(HOUR, **{**ORPHANED, **change}) == []


def test_memory_that_is_given_back_clears() -> None:
    """A reset helped."""
    feed = gpus()
    (onset,) = feed.run(900, **ORPHANED)
    (cleared,) = feed.run(300, **FREE)
    assert (cleared.id, cleared.phase) == (onset.id, "cleared")


def test_memory_that_a_process_takes_up_again_clears() -> None:
    """A server that was being restarted: idle, and allocated."""
    feed = gpus()
    feed.run(900, **ORPHANED)
    assert [f.phase for f in feed.run(300, **IDLE)] == ["cleared"]


@pytest.mark.slow
def test_a_gpu_that_a_job_leaves_idle_is_recorded_after_two_hours_and_when_they_have_doubled() -> (
    None
):
    """No one is woken, no ticket is written: it is for the bill."""
    feed = gpus()
    findings = feed.run(9 * HOUR, **IDLE)
    assert updates(findings) == [
        ("gpu", "GPU-n1-0", "waste/idle", "record", phase)
        for phase in ("onset", "ongoing", "ongoing")
    ]
    assert [round(f.value) for f in findings] == [2, 4, 8]


def test_a_job_without_processes_is_named() -> None:
    """A reservation that nobody uses."""
    feed = gpus()
    feed.event(
        Device("n1", "node", "n1"), "job_started", source="jobs", job="42", gpus="GPU-n1-0", hosts=1
    )
    (findings,) = feed.run(2.5 * HOUR, **FREE)
    assert findings.summary.startswith("Job 42 holds this GPU")


def test_free_and_working_gpus_are_silent() -> None:
    """One is nobody's, the other is used."""
    feed = gpus()
    assert feed.run(3 * HOUR, **FREE) + feed.run(3 * HOUR, **WORKS) == []


def test_an_idle_gpu_that_works_again_clears() -> None:
    """After a minute of work."""
    feed = gpus()
    feed.run(2.5 * HOUR, **IDLE)
    assert [f.phase for f in feed.run(180, **WORKS)] == ["cleared"]


@pytest.mark.slow
def test_what_comes_back_and_goes_again_within_the_rest_is_not_told_after_it() -> None:
    """Two jobs of one hour that left their memory behind, each put right."""
    feed = gpus()
    assert (
        relapse(feed.clock, lambda: feed.run(900, **ORPHANED), lambda: feed.run(300, **FREE)) == []
    )
