"""What counts as a reason to ask a job."""

from __future__ import annotations

import pytest

from collector.sources.nccl.suspicion import HARD_NS, MAX_FINDINGS, Suspicions
from pipeline.finding import Finding, Phase, Severity
from pipeline.frame import Device
from pipeline.observation import Observation


def finding(
    detector: str,
    severity: Severity = "record",
    phase: Phase = "onset",
    device: str = "GPU-1",
    onset_ns: int = 5_000,
) -> Finding:
    """A finding."""
    return Finding(
        detector, Device("n1", "gpu", device), "x", phase, severity, onset_ns, onset_ns, "words"
    )


def seen(at_ns: int) -> Observation:
    """An observation of some moment."""
    return Observation("nvml", "n1", "b", 0, 0, at_ns, 0)


def test_nothing_is_suspected_at_first() -> None:
    """No job is asked."""
    assert Suspicions().since_ns(10**12) is None


@pytest.mark.parametrize(
    ("detector", "severity"), [("hang", "record"), ("nccl", "ticket"), ("xid", "page")]
)
def test_a_stall_or_a_page_is_a_reason(detector: str, severity: Severity) -> None:
    """From the moment it is reported."""
    board = Suspicions()
    board.write(seen(1000), [finding(detector, severity)])
    board.write(seen(2000), [finding(detector, severity, "ongoing")])
    assert board.since_ns(3000) == 1000


def test_a_ticket_about_something_else_is_none() -> None:
    """Wear and drift do not stop a job."""
    board = Suspicions()
    board.write(seen(1000), [finding("ecc", "ticket")])
    assert board.since_ns(2000) is None


def test_a_stall_is_a_reason_as_long_as_it_stands() -> None:
    """And no longer."""
    board = Suspicions()
    board.write(seen(1000), [finding("hang")])
    assert board.since_ns(1000 + 10 * HARD_NS) == 1000
    board.write(seen(2000), [finding("hang", phase="cleared")])
    assert board.since_ns(2000) is None


def test_a_page_that_stands_for_days_is_no_reason_for_ever() -> None:
    """A lost GPU is not asked about every minute until it is replaced."""
    board = Suspicions()
    board.write(seen(0), [finding("availability", "page")])
    assert board.since_ns(HARD_NS) is None


def test_memory_is_bounded() -> None:
    """Whatever the detectors report."""
    board = Suspicions()
    board.write(seen(1), [finding("hang", device=f"GPU-{n}") for n in range(MAX_FINDINGS + 50)])
    assert len(board._active) == MAX_FINDINGS
